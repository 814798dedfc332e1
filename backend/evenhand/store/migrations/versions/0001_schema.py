"""Today's schema, and triggers that keep the decision log append-only.

Nothing is released yet: a database has this schema, to the column, or is refused. From the first release on this file
stays as it is, and changes come as further migrations.
"""

from alembic import op
from evenhand.store.engine import is_postgres
from evenhand.store.schema import SCHEMA, metadata

revision = SCHEMA
down_revision = None

KEPT = (
    "project_id", "number", "decision", "source", "source_key", "decided_at", "recorded_at", "previous_hash", "hash",
)  # fmt: skip
# A redaction takes out who is meant and what was written about them; everything else has to stay.
REDACTION = " AND ".join(
    (
        *(f"NEW.{name} = OLD.{name}" for name in KEPT),
        *(f"NEW.{name} {{same}} OLD.{name}" for name in ("run_id", "covers")),
        "NEW.salt = ''",
        "NEW.redacted_by IS NOT NULL",
        "NEW.redacted_by > COALESCE(OLD.redacted_by, OLD.number)",
        "(NEW.annotator_id = OLD.annotator_id OR NEW.annotator_id LIKE 'erased-%')",
        "(NEW.author = OLD.author OR NEW.author = 'erased')",
        "(NEW.comment = OLD.comment OR NEW.comment = '')",
        "(NEW.detail {same} OLD.detail OR NEW.detail IS NULL)",
    )
)
SQLITE_LOCKS = (
    f"""CREATE TRIGGER decisions_refuse_update BEFORE UPDATE ON decisions
    WHEN NOT ({REDACTION.format(same="IS")})
    BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END""",
    """CREATE TRIGGER decisions_refuse_delete BEFORE DELETE ON decisions
    BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END""",
)
POSTGRES_LOCKS = (
    """CREATE FUNCTION decisions_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'decisions are append-only'; END $$""",
    """CREATE TRIGGER decisions_refuse_truncate BEFORE TRUNCATE ON decisions
    FOR EACH STATEMENT EXECUTE FUNCTION decisions_refuse()""",
    """CREATE TRIGGER decisions_refuse_delete BEFORE DELETE ON decisions
    FOR EACH ROW EXECUTE FUNCTION decisions_refuse()""",
    f"""CREATE TRIGGER decisions_refuse_update BEFORE UPDATE ON decisions
    FOR EACH ROW WHEN (NOT ({REDACTION.format(same="IS NOT DISTINCT FROM")})) EXECUTE FUNCTION decisions_refuse()""",
)


def upgrade() -> None:
    """Make every table."""
    metadata.create_all(op.get_bind())
    for statement in POSTGRES_LOCKS if is_postgres(op.get_bind()) else SQLITE_LOCKS:
        op.execute(statement)
