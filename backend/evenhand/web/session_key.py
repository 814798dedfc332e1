"""The key that signs sessions: of the environment, else a file beside a SQLite database, else shared by replicas."""

import secrets
from pathlib import Path

from evenhand.private_files import secret_file
from evenhand.settings import Settings
from evenhand.store import Store

FILE_NAME = "session.key"
NAME = "session"


def session_key(settings: Settings, store: Store) -> str:
    """The key; on SQLite it is kept out of the database, so that a copy or backup of it opens no session."""
    path = store.engine.url.database
    if settings.secret_key:
        return settings.secret_key
    if store.database.on_postgres or not path or path == ":memory:":
        return store.secrets.get(NAME)
    store.secrets.delete(NAME)
    return secret_file(Path(path).with_name(FILE_NAME), lambda: secrets.token_urlsafe(48))
