"""Erasing one person: marks of who was erased, and decision lines that can be redacted but not otherwise changed."""

import sqlalchemy as sa
from alembic import op
from evenhand.store.dialect import is_postgres

revision = "0002"
down_revision = "0001"

KEPT = (
    "project_id",
    "number",
    "decision",
    "source",
    "source_key",
    "decided_at",
    "recorded_at",
    "previous_hash",
    "hash",
)
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
    )
)
SQLITE_LOCKS = (
    "DROP TRIGGER decisions_refuse_update",
    f"""CREATE TRIGGER decisions_refuse_update BEFORE UPDATE ON decisions
    WHEN NOT ({REDACTION.format(same="IS")})
    BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END""",
)
POSTGRES_LOCKS = (
    "DROP TRIGGER decisions_refuse_change ON decisions",
    """CREATE TRIGGER decisions_refuse_delete BEFORE DELETE ON decisions
    FOR EACH ROW EXECUTE FUNCTION decisions_refuse()""",
    f"""CREATE TRIGGER decisions_refuse_update BEFORE UPDATE ON decisions
    FOR EACH ROW WHEN (NOT ({REDACTION.format(same="IS NOT DISTINCT FROM")})) EXECUTE FUNCTION decisions_refuse()""",
)


def upgrade() -> None:
    """Add the marks of erased people, the columns of redaction, and triggers that let redactions through."""
    op.create_table(
        "erasures",
        sa.Column("ls_url", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("erased_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("ls_url", "token", name=op.f("pk_erasures")),
    )
    op.add_column("projects", sa.Column("erased_seq", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("decisions", sa.Column("salt", sa.Text(), nullable=False, server_default=""))
    op.add_column("decisions", sa.Column("covers", sa.Text(), nullable=True))
    op.add_column("decisions", sa.Column("redacted_by", sa.BigInteger(), nullable=True))
    for statement in POSTGRES_LOCKS if is_postgres(op.get_bind()) else SQLITE_LOCKS:
        op.execute(statement)
