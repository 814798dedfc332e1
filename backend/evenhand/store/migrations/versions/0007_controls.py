"""Projects may read several controls: what each holds in an answer, and what it says about an annotator."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns; so far one control was read, whose answer is the outcome."""
    op.add_column("comparisons", sa.Column("answers", sa.JSON(), nullable=True))
    op.add_column("run_annotators", sa.Column("controls", sa.JSON(), nullable=True))
