"""What each annotator has spent of its error over all runs: lasting flags rest on it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the table; everybody starts with nothing spent, and earlier flags last until the next run."""
    op.create_table(
        "spending",
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("annotator_id", sa.Text(), nullable=False),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.Column("looks", sa.Integer(), nullable=False),
        sa.Column("p_star", sa.Double(), nullable=False),
        sa.Column("is_lasting", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_spending_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", "annotator_id", name=op.f("pk_spending")),
    )
