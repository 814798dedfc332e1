"""Who changed what: settings in the sealed log."""

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
    op.add_column("decisions", sa.Column("detail", sa.Text(), nullable=True))
    for statement in POSTGRES_LOCKS if is_postgres(op.get_bind()) else SQLITE_LOCKS:
        op.execute(statement)
