"""The tables of stored runs."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from evenhand.store.schema_base import RowId, metadata, project_column

runs = Table(
    "runs",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    project_column(),
    Column("status", Text, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("requested_by", Text),
    Column("requested_at", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("attempts", Integer, nullable=False),
    Column("seq", BigInteger),
    Column("seed", BigInteger),
    Column("config", JSON),
    Column("versions", JSON),
    Column("audit", JSON),
    Column("guarantee", Text),
    Column("summary", JSON),
    Column("timings", JSON),
    Column("error", Text),
    Column("progress", Double),
    Column("progress_note", Text),
    Column("model_version", Text),
    Column("data_hash", Text),
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
    Column("comparisons", BigInteger, nullable=False),
    Column("left", BigInteger, nullable=False),
    Column("right", BigInteger, nullable=False),
    Column("ties", BigInteger, nullable=False),
    Column("bias", Double),
    Column("bias_low", Double),
    Column("bias_high", Double),
    Column("entry", Double),
    Column("draw_share", Double),  # of older runs only
    Column("p_value", Double),
    Column("match_ratio", Double),
    Column("finding", Text),
    Column("flagged", Boolean, nullable=False),
    Column("more_needed", BigInteger),
    Column("first_seen", Double),
    Column("last_seen", Double),
    Column("median_lead_time", Double),
    Column("longest_run", BigInteger),
    Column("persistent", Boolean, nullable=False),
    Column("sup_e", Double),
    Column("warned", Boolean, nullable=False),
    Column("q_value", Double),
    Column("exact_list", Boolean),
    Column("lbi_share", Double),
    Column("lbi_list", Boolean),
    Column("difference", Text),
    Column("controls", JSON(none_as_null=True)),  # what controls beside the deciding one say
    PrimaryKeyConstraint("run_id", "annotator"),
    Index(None, "run_id", "position"),
)

run_items = Table(
    "run_items",
    metadata,
    _run(),
    Column("item", Text, nullable=False),
    Column("score", Double),
    Column("se", Double),
    Column("rank", Double),
    Column("rank_low", Double),
    Column("rank_high", Double),
    Column("raw_score", Double),
    Column("raw_rank", Double),
    Column("component", Integer),
    PrimaryKeyConstraint("run_id", "item"),
    Index(None, "run_id", "rank"),
)

run_order_changes = Table(
    "run_order_changes",
    metadata,
    _run(),
    Column("position", Integer, nullable=False),
    Column("above", Text, nullable=False),
    Column("below", Text, nullable=False),
    Column("raw_difference", Double),
    Column("difference", Double),
    Column("probability", Double),
    PrimaryKeyConstraint("run_id", "position"),
)

run_paths = Table(
    "run_paths",
    metadata,
    Column("run_id", RowId, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("path", JSON, nullable=False),
)
