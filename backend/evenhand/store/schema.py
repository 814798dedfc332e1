"""The tables, one schema for SQLite and PostgreSQL; times are seconds since the epoch in double precision."""

import hashlib
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Row numbers given out by the database; SQLite counts only in columns declared INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")


def project_column() -> Column[int]:
    """The column every project-bound table starts with."""
    return Column("project_id", RowId, ForeignKey("projects.id"), nullable=False)


def needed(kind: Any, *names: str) -> list[Column[Any]]:
    """Columns of one kind that are never empty."""
    return [Column(name, kind, nullable=False) for name in names]


def optional(kind: Any, *names: str) -> list[Column[Any]]:
    """Columns of one kind that may be empty."""
    return [Column(name, kind) for name in names]


projects = Table(
    "projects",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("ls_url", Text, nullable=False),
    *needed(BigInteger, "ls_project_id", "epoch"),
    *needed(Text, "title", "kind", "label_config"),
    *needed(JSON, "config", "setup_params", "task_fields"),
    Column("alerts_for", RowId, ForeignKey("projects.id")),
    *needed(BigInteger, "seq", "live_seq"),
    Column("created_at", Double, nullable=False),
    *optional(Double, "ls_updated_at", "last_event_at", "last_pull_at"),
    Column("last_pull", JSON),
    Column("pull_watermark", Double),
    Column("full_pull_needed", Boolean, nullable=False),
    Column("counts", JSON, nullable=False),
    Column("deleted_at", Double),
    Column("erased_seq", BigInteger, nullable=False, server_default="0"),
    Column("hinted_at", Double),
    Column("agreed", JSON(none_as_null=True)),  # the labelling setup as it is read, and what was said of it
    UniqueConstraint("ls_url", "ls_project_id", "epoch"),
    sqlite_autoincrement=True,
)

comparisons = Table(
    "comparisons",
    metadata,
    project_column(),
    Column("annotation_id", BigInteger, nullable=False),
    Column("task_id", BigInteger),
    *optional(Text, "annotator_id", "left_item", "right_item", "coin", "stratum"),
    Column("outcome", Double),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("ground_truth", Boolean, nullable=False),
    Column("lead_time", Double),
    *needed(Double, "created_at", "updated_at"),
    Column("deleted", Boolean, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("first_seq", BigInteger),
    Column("answers", JSON(none_as_null=True)),  # outcome by control, where several are read
    Column("digest", Text),
    Column("is_verified", Boolean, nullable=False, server_default=true()),  # Label Studio's API showed it
    Column("standing", Text),  # of `revisions`: null where the row itself is its author's first submission
    Column("word", Text),
    Column("pairs", SmallInteger),  # comparisons that the annotation holds, where they are several
    PrimaryKeyConstraint("project_id", "annotation_id"),
    Index(None, "project_id", "task_id"),
    Index(None, "project_id", "annotator_id", "annotation_id"),
)

changes = Table(
    "changes",
    metadata,
    project_column(),
    *needed(BigInteger, "seq", "annotation_id"),
    Column("annotator_id", Text, nullable=False),
    Column("task_id", BigInteger),
    *needed(Text, "left_item", "right_item", "coin"),
    Column("stratum", Text),
    Column("outcome", Double, nullable=False),
    Column("weight", SmallInteger, nullable=False),
    Column("is_first", Boolean, nullable=False),
    Column("at", Double, nullable=False),
    PrimaryKeyConstraint("project_id", "seq"),
)

revisions = Table(
    "revisions",
    metadata,
    project_column(),
    *needed(BigInteger, "seq", "annotation_id"),
    Column("kind", Text, nullable=False),
    Column("by_id", Text),
    Column("at", Double, nullable=False),
    Column("is_first", Boolean, nullable=False),
    Column("annotator_id", Text),
    Column("task_id", BigInteger),
    *optional(Text, "left_item", "right_item", "coin", "stratum"),
    Column("outcome", Double),
    Column("status", Text, nullable=False),
    Column("ground_truth", Boolean, nullable=False),
    PrimaryKeyConstraint("project_id", "seq"),
    Index(None, "project_id", "annotator_id"),
)

annotators = Table(
    "annotators",
    metadata,
    project_column(),
    Column("annotator_id", Text, nullable=False),
    *optional(Text, "name", "email", "team"),  # a team or vendor: as an owner said, else the address's domain
    Column("first_seen", Double),
    PrimaryKeyConstraint("project_id", "annotator_id"),
)

items = Table(
    "items",
    metadata,
    project_column(),
    *needed(Text, "item", "label"),
    *optional(BigInteger, "chars", "marks"),  # of texts
    PrimaryKeyConstraint("project_id", "item"),
)

tasks = Table(
    "tasks",
    metadata,
    project_column(),
    Column("task_id", BigInteger, nullable=False),
    *optional(Text, "left_item", "right_item", "coin", "stratum"),
    Column("is_labeled", Boolean),
    Column("deleted", Boolean, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("project_id", "task_id"),
)

live_evidence = Table(
    "live_evidence",
    metadata,
    project_column(),
    Column("annotator_id", Text, nullable=False),
    Column("state", JSON, nullable=False),  # of the e-process, and its curve
    *needed(Double, "log_e", "sup_log_e"),
    Column("answers", BigInteger, nullable=False),
    Column("warned_at", Double),
    PrimaryKeyConstraint("project_id", "annotator_id"),
)

spending = Table(
    "spending",
    metadata,
    project_column(),
    Column("annotator_id", Text, nullable=False),
    Column("answers", BigInteger, nullable=False),
    Column("looks", Integer, nullable=False),
    Column("p_star", Double, nullable=False),
    Column("is_lasting", Boolean, nullable=False),
    Column("is_independent", Boolean, nullable=False, server_default=false()),
    PrimaryKeyConstraint("project_id", "annotator_id"),
)

flags = Table(
    "flags",
    metadata,
    project_column(),
    Column("annotator_id", Text, nullable=False),
    Column("run_id", RowId, ForeignKey("runs.id"), nullable=False),
    Column("since", Double, nullable=False),
    Column("finding", Text),
    Column("evidence", JSON, nullable=False),
    PrimaryKeyConstraint("project_id", "annotator_id"),
)

decisions = Table(
    "decisions",
    metadata,
    project_column(),
    Column("number", BigInteger, nullable=False),
    *needed(Text, "annotator_id", "decision", "comment", "author", "source", "source_key"),
    Column("run_id", BigInteger),
    *needed(Double, "decided_at", "recorded_at"),
    *needed(Text, "previous_hash", "hash"),
    Column("salt", Text, nullable=False, server_default=""),
    Column("covers", Text),
    Column("redacted_by", BigInteger),
    Column("detail", Text),
    PrimaryKeyConstraint("project_id", "number"),
    UniqueConstraint("project_id", "source_key"),
    Index(None, "project_id", "annotator_id"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", Double, nullable=False),
)

publications = Table(
    "publications",
    metadata,
    project_column(),
    *needed(Text, "channel", "key"),
    *optional(Text, "content_hash", "remote_id"),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_try_at", Double),
    Column("last_error", Text),
    Column("updated_at", Double, nullable=False),
    PrimaryKeyConstraint("project_id", "channel", "key"),
)

event_counts = Table(
    "event_counts",
    metadata,
    *needed(Text, "kind", "outcome"),
    Column("count", BigInteger, nullable=False),
    Column("last_at", Double, nullable=False),
    PrimaryKeyConstraint("kind", "outcome"),
)

problems = Table(
    "problems",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("project_id", RowId, ForeignKey("projects.id")),
    *needed(Text, "code", "message", "remedy"),
    *needed(Double, "first_at", "last_at"),
    Column("count", BigInteger, nullable=False),
    Column("resolved_at", Double),
    Index(None, "project_id", "code", "resolved_at"),
)

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("password_hash", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("role", Text, nullable=False, server_default="reader"),
    # Who this is in Label Studio; an empty id: said to be nobody there; null: not known.
    *(Column(name, Text) for name in ("ls_url", "ls_user", "linked_by")),
)

login_failures = Table(
    "login_failures",
    metadata,
    Column("key", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("blocked_until", Double, nullable=False),
)

notifications = Table(
    "notifications",
    metadata,
    Column("key", Text, primary_key=True),
    Column("project_id", RowId, ForeignKey("projects.id")),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_try_at", Double),
    Column("payload", JSON, nullable=False),
    Column("last_error", Text),
    Column("created_at", Double, nullable=False),
)

secrets = Table("secrets", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

erasures = Table(
    "erasures",
    metadata,
    *needed(Text, "ls_url", "token"),
    Column("erased_at", Double, nullable=False),
    PrimaryKeyConstraint("ls_url", "token"),
)

follow_ups = Table(
    "follow_ups",
    metadata,
    Column("id", RowId, primary_key=True),
    project_column(),
    *needed(Text, "annotator_id", "kind"),
    Column("detail", JSON, nullable=False),
    Column("made_at", Double, nullable=False),
    Column("undone_at", Double),
)


runs = Table(
    "runs",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    project_column(),
    *needed(Text, "status", "trigger"),
    Column("requested_by", Text),
    Column("requested_at", Double, nullable=False),
    *optional(Double, "started_at", "finished_at"),
    Column("attempts", Integer, nullable=False),
    *optional(BigInteger, "seq", "seed"),
    *optional(JSON, "config", "versions", "audit"),
    Column("guarantee", Text),
    *optional(JSON, "summary", "timings"),
    Column("error", Text),
    Column("progress", Double),
    *optional(Text, "progress_note", "model_version", "data_hash"),
    Index(None, "project_id", "status", "id"),
    Index(None, "status", "id"),
    sqlite_autoincrement=True,
)


def _run() -> Column[int]:
    """The column every table of a run's results starts with."""
    return Column("run_id", RowId, ForeignKey("runs.id"), nullable=False)


run_annotators = Table(
    "run_annotators",
    metadata,
    _run(),
    Column("annotator", Text, nullable=False),
    Column("position", Integer, nullable=False),
    *needed(BigInteger, "comparisons", "left", "right", "ties"),
    *optional(Double, "bias", "bias_low", "bias_high", "entry", "p_value", "match_ratio"),
    Column("finding", Text),
    Column("flagged", Boolean, nullable=False),
    Column("more_needed", BigInteger),
    *optional(Double, "first_seen", "last_seen", "median_lead_time"),
    Column("longest_run", BigInteger),
    Column("persistent", Boolean, nullable=False),
    Column("sup_e", Double),
    Column("warned", Boolean, nullable=False),
    Column("q_value", Double),
    *optional(Boolean, "exact_list", "proven"),
    Column("lbi_share", Double),
    Column("lbi_list", Boolean),
    Column("difference", Text),
    Column("controls", JSON(none_as_null=True)),  # what controls beside the deciding one say
    Column("leans", JSON(none_as_null=True)),  # beyond position, by name
    Column("trend", JSON(none_as_null=True)),  # leans by week, kappa with the others
    PrimaryKeyConstraint("run_id", "annotator"),
    Index(None, "run_id", "position"),
)

run_items = Table(
    "run_items",
    metadata,
    _run(),
    Column("item", Text, nullable=False),
    *optional(Double, "score", "se", "rank", "rank_low", "rank_high", "raw_score", "raw_rank"),
    Column("component", Integer),
    PrimaryKeyConstraint("run_id", "item"),
    Index(None, "run_id", "rank"),
)

run_order_changes = Table(
    "run_order_changes",
    metadata,
    _run(),
    Column("position", Integer, nullable=False),
    *needed(Text, "above", "below"),
    *optional(Double, "raw_difference", "difference", "probability"),
    PrimaryKeyConstraint("run_id", "position"),
)

run_paths = Table(
    "run_paths",
    metadata,
    Column("run_id", RowId, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("path", JSON, nullable=False),
)

_COLUMNS = [column for table in metadata.sorted_tables for column in table.columns]
#: What names this schema: other tables or columns, another name.
SCHEMA = hashlib.sha256(repr([(str(c), str(c.type), c.nullable) for c in _COLUMNS]).encode()).hexdigest()[:12]
