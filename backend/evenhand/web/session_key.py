"""Secrets of the web service. The key that signs sessions and the token of an open service: of the environment,
else a file beside a SQLite database, else shared by replicas.
"""

import secrets
from pathlib import Path

from evenhand.private_files import secret_file
from evenhand.settings import Settings
from evenhand.store import Store

FILE_NAME = "session.key"
NAME = "session"
TOKEN, TOKEN_FILE = "open token", "open.token"


def session_key(settings: Settings, store: Store) -> str:
    """The key; on SQLite it is kept out of the database, so that a copy or backup of it opens no session."""
    return settings.secret_key or _kept_beside(store, NAME, FILE_NAME)


def open_token(settings: Settings, store: Store) -> str:
    """What lets in whoever started a service without credentials: one for each data folder, the same after a restart.

    A service on loopback can be reached by everybody on the machine, and behind a proxy by everybody; the file can be
    read by its owner alone.
    """
    return _kept_beside(store, TOKEN, TOKEN_FILE)


def open_link(settings: Settings, store: Store) -> str:
    """The address that opens the pages of a service without credentials."""
    base = settings.public_url or f"http://{settings.host}:{settings.port}"
    return f"{base}/ui/?token={open_token(settings, store)}"


def _kept_beside(store: Store, name: str, file_name: str) -> str:
    """A secret in a file beside a SQLite database, and not in it; else in the database, which replicas share."""
    path = store.engine.url.database
    if store.database.on_postgres or not path or path == ":memory:":
        return store.secrets.get(name)
    store.secrets.delete(name)
    return secret_file(Path(path).with_name(file_name), lambda: secrets.token_urlsafe(48))
