"""Alembic's entry: migrations run on the connection that `evenhand.store.engine.migrate` hands over."""

from alembic import context
from evenhand.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
