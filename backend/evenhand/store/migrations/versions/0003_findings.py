"""Findings instead of verdicts: what the exact tests and knockoff LBI say, beside each other, for every annotator.

Results of older runs keep their words and their share of draws; nothing else is known about them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

#: What pages and exports said for the verdicts that older runs stored.
OLDER_WORDS = {
    "good": "no lean found",
    "ugly": "leans to one side",
    "bad": "always one side",
    "not assessable": "not assessable yet",
}


def upgrade() -> None:
    """Rename the column, put words in the place of the old names, and add what runs now find."""
    for table in ("run_annotators", "flags"):
        op.execute(f"ALTER TABLE {table} RENAME COLUMN verdict TO finding")
        rows = sa.table(table, sa.column("finding", sa.Text()))
        for older, words in OLDER_WORDS.items():
            op.execute(rows.update().where(rows.c.finding == older).values(finding=words))
    op.add_column("run_annotators", sa.Column("q_value", sa.Double(), nullable=True))
    op.add_column("run_annotators", sa.Column("exact_list", sa.Boolean(), nullable=True))
    op.add_column("run_annotators", sa.Column("lbi_share", sa.Double(), nullable=True))
    op.add_column("run_annotators", sa.Column("lbi_list", sa.Boolean(), nullable=True))
    op.add_column("run_annotators", sa.Column("difference", sa.Text(), nullable=True))
    op.add_column("run_order_changes", sa.Column("probability", sa.Double(), nullable=True))
