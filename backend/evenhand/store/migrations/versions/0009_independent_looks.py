"""Whether an annotator's looks were all at tests independent of each other: of older looks nobody knows."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column; who was looked at before keeps the stricter rule."""
    op.add_column("spending", sa.Column("is_independent", sa.Boolean(), nullable=False, server_default=sa.false()))
