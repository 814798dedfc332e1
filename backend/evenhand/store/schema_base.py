"""What all tables share."""

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Row numbers given out by the database; SQLite counts only in columns declared INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")


def project_column() -> Column[int]:
    """The column every project-bound table starts with."""
    return Column("project_id", RowId, ForeignKey("projects.id"), nullable=False)
