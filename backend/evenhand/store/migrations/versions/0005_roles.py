"""Accounts have roles; those made before could do everything, and still can."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; new accounts read, unless somebody gives them more."""
    op.add_column("users", sa.Column("role", sa.Text(), nullable=False, server_default="reader"))
    op.execute("UPDATE users SET role = 'owner'")
