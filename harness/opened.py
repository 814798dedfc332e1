"""The token of a service without accounts, as whoever started it has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.web.context import KEY
from evenhand.web.passwords import TOKEN_FILE
from flask import Flask
from flask.testing import FlaskClient

if TYPE_CHECKING:
    import pytest


def client_of(app: Flask) -> FlaskClient:
    """A test client that sends the token of its app; what is sent otherwise comes first."""
    return _with_token(app.test_client())


def hold_the_token(patch: pytest.MonkeyPatch) -> None:
    """Let every test client send the token of its app."""
    plain = FlaskClient.__init__

    def made(self: FlaskClient, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        _with_token(self)

    patch.setattr(FlaskClient, "__init__", made)


def token_header(folder: Path) -> dict[str, str]:
    """The header that opens the running service of a data folder; none before it has a token."""
    path = folder / TOKEN_FILE
    return {"Authorization": f"Bearer {path.read_text().strip()}"} if path.exists() else {}


def _with_token(client: FlaskClient) -> FlaskClient:
    services = client.application.extensions.get(KEY)
    if services is not None:
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {services.open_token}"
    return client
