"""The first schema."""

import sqlalchemy as sa
from alembic import op
from evenhand.store.dialect import is_postgres

revision = "0001"
down_revision = None

SQLITE_LOCKS = tuple(
    f"""CREATE TRIGGER decisions_refuse_{verb.lower()} BEFORE {verb} ON decisions
    BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END"""
    for verb in ("UPDATE", "DELETE")
)
POSTGRES_LOCKS = (
    """CREATE FUNCTION decisions_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'decisions are append-only'; END $$""",
    """CREATE TRIGGER decisions_refuse_change BEFORE UPDATE OR DELETE ON decisions
    FOR EACH ROW EXECUTE FUNCTION decisions_refuse()""",
    """CREATE TRIGGER decisions_refuse_truncate BEFORE TRUNCATE ON decisions
    FOR EACH STATEMENT EXECUTE FUNCTION decisions_refuse()""",
)


def upgrade() -> None:
    """Create every table, and the triggers that keep the decision log append-only."""
    op.create_table(
        "event_counts",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "outcome", name=op.f("pk_event_counts")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "login_failures",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("blocked_until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_login_failures")),
    )
    op.create_table(
        "projects",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("ls_url", sa.Text(), nullable=False),
        sa.Column("ls_project_id", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("label_config", sa.Text(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("setup_params", sa.JSON(), nullable=False),
        sa.Column("task_fields", sa.JSON(), nullable=False),
        sa.Column("alerts_for", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("live_seq", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ls_updated_at", sa.Double(), nullable=True),
        sa.Column("last_event_at", sa.Double(), nullable=True),
        sa.Column("last_pull_at", sa.Double(), nullable=True),
        sa.Column("last_pull", sa.JSON(), nullable=True),
        sa.Column("pull_watermark", sa.Double(), nullable=True),
        sa.Column("full_pull_needed", sa.Boolean(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("deleted_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["alerts_for"], ["projects.id"], name=op.f("fk_projects_alerts_for_projects")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("ls_url", "ls_project_id", "epoch", name=op.f("uq_projects_ls_url_ls_project_id_epoch")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_users")),
    )
    op.create_table(
        "annotators",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("annotator_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("first_seen", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_annotators_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "annotator_id", name=op.f("pk_annotators")),
    )
    op.create_table(
        "changes",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("annotation_id", sa.BigInteger(), nullable=False),
        sa.Column("annotator_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=True),
        sa.Column("left_item", sa.Text(), nullable=False),
        sa.Column("right_item", sa.Text(), nullable=False),
        sa.Column("coin", sa.Text(), nullable=False),
        sa.Column("stratum", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Double(), nullable=False),
        sa.Column("weight", sa.SmallInteger(), nullable=False),
        sa.Column("is_first", sa.Boolean(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_changes_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "seq", name=op.f("pk_changes")),
    )
    op.create_table(
        "comparisons",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("annotation_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=True),
        sa.Column("annotator_id", sa.Text(), nullable=True),
        sa.Column("left_item", sa.Text(), nullable=True),
        sa.Column("right_item", sa.Text(), nullable=True),
        sa.Column("coin", sa.Text(), nullable=True),
        sa.Column("stratum", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("ground_truth", sa.Boolean(), nullable=False),
        sa.Column("lead_time", sa.Double(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_comparisons_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "annotation_id", name=op.f("pk_comparisons")),
    )
    op.create_index(
        op.f("ix_comparisons_project_id_annotator_id_annotation_id"),
        "comparisons",
        ["project_id", "annotator_id", "annotation_id"],
        unique=False,
    )
    op.create_index(op.f("ix_comparisons_project_id_task_id"), "comparisons", ["project_id", "task_id"], unique=False)
    op.create_table(
        "decisions",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("annotator_id", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=True),
        sa.Column("decided_at", sa.Double(), nullable=False),
        sa.Column("recorded_at", sa.Double(), nullable=False),
        sa.Column("previous_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_decisions_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "number", name=op.f("pk_decisions")),
        sa.UniqueConstraint("project_id", "source_key", name=op.f("uq_decisions_project_id_source_key")),
    )
    op.create_index(
        op.f("ix_decisions_project_id_annotator_id"), "decisions", ["project_id", "annotator_id"], unique=False
    )
    op.create_table(
        "items",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_items_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "item", name=op.f("pk_items")),
    )
    op.create_table(
        "live_curve",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("annotator_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("log_e", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_live_curve_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "annotator_id", "seq", name=op.f("pk_live_curve")),
    )
    op.create_table(
        "live_evidence",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("annotator_id", sa.Text(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.Column("log_e", sa.Double(), nullable=False),
        sa.Column("sup_log_e", sa.Double(), nullable=False),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.Column("warned_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_live_evidence_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "annotator_id", name=op.f("pk_live_evidence")),
    )
    op.create_table(
        "notifications",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_try_at", sa.Double(), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_notifications_project_id_projects")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_notifications")),
    )
    op.create_table(
        "problems",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("remedy", sa.Text(), nullable=False),
        sa.Column("first_at", sa.Double(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_problems_project_id_projects")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_problems")),
    )
    op.create_index(
        op.f("ix_problems_project_id_code_resolved_at"), "problems", ["project_id", "code", "resolved_at"], unique=False
    )
    op.create_table(
        "publications",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=True),
        sa.Column("remote_id", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_try_at", sa.Double(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_publications_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "channel", "key", name=op.f("pk_publications")),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=True),
        sa.Column("requested_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.Column("config", sa.JSON(), nullable=True),
        sa.Column("versions", sa.JSON(), nullable=True),
        sa.Column("audit", sa.JSON(), nullable=True),
        sa.Column("guarantee", sa.Text(), nullable=True),
        sa.Column("summary", sa.JSON(), nullable=True),
        sa.Column("timings", sa.JSON(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("progress", sa.Double(), nullable=True),
        sa.Column("progress_note", sa.Text(), nullable=True),
        sa.Column("model_version", sa.Text(), nullable=True),
        sa.Column("data_hash", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_runs_project_id_projects")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_runs_project_id_status_id"), "runs", ["project_id", "status", "id"], unique=False)
    op.create_index(op.f("ix_runs_status_id"), "runs", ["status", "id"], unique=False)
    op.create_table(
        "tasks",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("left_item", sa.Text(), nullable=True),
        sa.Column("right_item", sa.Text(), nullable=True),
        sa.Column("coin", sa.Text(), nullable=True),
        sa.Column("stratum", sa.Text(), nullable=True),
        sa.Column("is_labeled", sa.Boolean(), nullable=True),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_tasks_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "task_id", name=op.f("pk_tasks")),
    )
    op.create_table(
        "flags",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("annotator_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_flags_project_id_projects")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_flags_run_id_runs")),
        sa.PrimaryKeyConstraint("project_id", "annotator_id", name=op.f("pk_flags")),
    )
    op.create_table(
        "run_annotators",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("annotator", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("comparisons", sa.BigInteger(), nullable=False),
        sa.Column("left", sa.BigInteger(), nullable=False),
        sa.Column("right", sa.BigInteger(), nullable=False),
        sa.Column("ties", sa.BigInteger(), nullable=False),
        sa.Column("bias", sa.Double(), nullable=True),
        sa.Column("bias_low", sa.Double(), nullable=True),
        sa.Column("bias_high", sa.Double(), nullable=True),
        sa.Column("entry", sa.Double(), nullable=True),
        sa.Column("draw_share", sa.Double(), nullable=True),
        sa.Column("p_value", sa.Double(), nullable=True),
        sa.Column("match_ratio", sa.Double(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("flagged", sa.Boolean(), nullable=False),
        sa.Column("more_needed", sa.BigInteger(), nullable=True),
        sa.Column("first_seen", sa.Double(), nullable=True),
        sa.Column("last_seen", sa.Double(), nullable=True),
        sa.Column("median_lead_time", sa.Double(), nullable=True),
        sa.Column("longest_run", sa.BigInteger(), nullable=True),
        sa.Column("persistent", sa.Boolean(), nullable=False),
        sa.Column("sup_e", sa.Double(), nullable=True),
        sa.Column("warned", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_annotators_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "annotator", name=op.f("pk_run_annotators")),
    )
    op.create_index(op.f("ix_run_annotators_run_id_position"), "run_annotators", ["run_id", "position"], unique=False)
    op.create_table(
        "run_items",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("se", sa.Double(), nullable=True),
        sa.Column("rank", sa.Double(), nullable=True),
        sa.Column("rank_low", sa.Double(), nullable=True),
        sa.Column("rank_high", sa.Double(), nullable=True),
        sa.Column("raw_score", sa.Double(), nullable=True),
        sa.Column("raw_rank", sa.Double(), nullable=True),
        sa.Column("component", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_items_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "item", name=op.f("pk_run_items")),
    )
    op.create_index(op.f("ix_run_items_run_id_rank"), "run_items", ["run_id", "rank"], unique=False)
    op.create_table(
        "run_order_changes",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("above", sa.Text(), nullable=False),
        sa.Column("below", sa.Text(), nullable=False),
        sa.Column("raw_difference", sa.Double(), nullable=True),
        sa.Column("difference", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_order_changes_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("pk_run_order_changes")),
    )
    op.create_table(
        "run_paths",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("path", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_paths_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_paths")),
    )
    for statement in POSTGRES_LOCKS if is_postgres(op.get_bind()) else SQLITE_LOCKS:
        op.execute(statement)
