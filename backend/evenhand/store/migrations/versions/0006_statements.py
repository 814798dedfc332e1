"""What owners state about the sides, and what followed from a confirmed flag."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the two tables; nobody has stated anything yet, and nothing has followed."""
    row_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "side_statements",
        sa.Column("id", row_id, nullable=False),
        sa.Column("project_id", row_id, nullable=False),
        sa.Column("sides", sa.Text(), nullable=False),
        sa.Column("said_by", sa.Text(), nullable=False),
        sa.Column("said_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_side_statements_project_id_projects")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_side_statements")),
    )
    op.create_table(
        "follow_ups",
        sa.Column("id", row_id, nullable=False),
        sa.Column("project_id", row_id, nullable=False),
        sa.Column("annotator_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.Column("undone_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_follow_ups_project_id_projects")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_follow_ups")),
    )
