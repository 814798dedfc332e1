"""Snapshots of statistics, from which a restarted worker goes on."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the table; the first run of a large project fills it."""
    row_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "statistics_parts",
        sa.Column("project_id", row_id, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("parts", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_statistics_parts_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "seq", "part", name=op.f("pk_statistics_parts")),
    )
