"""Who changed what: settings in the sealed log, answers in a history of their own."""

import sqlalchemy as sa
from alembic import op
from evenhand.store.dialect import is_postgres

revision = "0010"
down_revision = "0009"

# As before, and a redaction may take out what a change of settings said of somebody.
REDACTION = " AND ".join(
    (
        *(
            f"NEW.{name} = OLD.{name}"
            for name in (
                "project_id", "number", "decision", "source", "source_key", "decided_at", "recorded_at",
                "previous_hash", "hash",
            )
        ),
        *(f"NEW.{name} {{same}} OLD.{name}" for name in ("run_id", "covers")),
        "NEW.salt = ''",
        "NEW.redacted_by IS NOT NULL",
        "NEW.redacted_by > COALESCE(OLD.redacted_by, OLD.number)",
        "(NEW.annotator_id = OLD.annotator_id OR NEW.annotator_id LIKE 'erased-%')",
        "(NEW.author = OLD.author OR NEW.author = 'erased')",
        "(NEW.comment = OLD.comment OR NEW.comment = '')",
        "(NEW.detail {same} OLD.detail OR NEW.detail IS NULL)",
    )
)  # fmt: skip
SQLITE_LOCKS = (
    "DROP TRIGGER decisions_refuse_update",
    f"""CREATE TRIGGER decisions_refuse_update BEFORE UPDATE ON decisions
    WHEN NOT ({REDACTION.format(same="IS")})
    BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END""",
)
POSTGRES_LOCKS = (
    "DROP TRIGGER decisions_refuse_update ON decisions",
    f"""CREATE TRIGGER decisions_refuse_update BEFORE UPDATE ON decisions
    FOR EACH ROW WHEN (NOT ({REDACTION.format(same="IS NOT DISTINCT FROM")})) EXECUTE FUNCTION decisions_refuse()""",
)


def upgrade() -> None:
    """Add what nobody kept before; of older changes nothing is known."""
    row_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("decisions", sa.Column("detail", sa.Text(), nullable=True))
    op.add_column("comparisons", sa.Column("digest", sa.Text(), nullable=True))
    op.add_column("projects", sa.Column("hinted_at", sa.Double(), nullable=True))
    op.add_column("comparisons", sa.Column("is_verified", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.add_column("comparisons", sa.Column("standing", sa.Text(), nullable=True))
    op.create_table(
        "revisions",
        sa.Column("project_id", row_id, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("annotation_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("by_id", sa.Text(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("is_first", sa.Boolean(), nullable=False),
        sa.Column("annotator_id", sa.Text(), nullable=True),
        sa.Column("task_id", sa.BigInteger(), nullable=True),
        sa.Column("left_item", sa.Text(), nullable=True),
        sa.Column("right_item", sa.Text(), nullable=True),
        sa.Column("coin", sa.Text(), nullable=True),
        sa.Column("stratum", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Double(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("ground_truth", sa.Boolean(), nullable=False),
        sa.Column("outcome_after", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_revisions_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "seq", name=op.f("pk_revisions")),
    )
    op.create_index(op.f("ix_revisions_project_id_annotator_id"), "revisions", ["project_id", "annotator_id"])
    for statement in POSTGRES_LOCKS if is_postgres(op.get_bind()) else SQLITE_LOCKS:
        op.execute(statement)
