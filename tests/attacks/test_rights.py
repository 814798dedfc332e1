"""The matrix: every route, every method, every caller, against the service, as the table in the manual has it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from evenhand.app import create_app
from evenhand.domain import ROLES
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from evenhand.web.auth import CALLERS, Right, rights
from evenhand.web.passwords import hash_password
from flask import Flask

from harness.databases import new_store
from harness.service import Service
from tests.attacks.cases import JSON, NAME, PASSWORD, SECRET, VARIABLES, basic, call

Ask = Callable[[str, str, bytes, Mapping[str, str]], int]
CREDENTIALS: Mapping[str, Mapping[str, str]] = {
    "stranger": {},
    "secret": {"X-Evenhand-Secret": SECRET},
    **{role: basic(role, PASSWORD) for role in ROLES},
}
#: With an API token the service reads back what strangers hint at.
LABEL_STUDIO = {"LABEL_STUDIO_URL": "http://127.0.0.1:9", "LABEL_STUDIO_API_KEY": "0" * 40}
#: Refused for its missing form token, whoever asks.
FORM_ONLY = ("/ui/login", "POST")
BODY = json.dumps({"project": "1.1700000000", "schema": "<View/>", "action": "X", "tasks": []}).encode()


def add_everybody(store: Store) -> None:
    for role in ROLES:
        store.users.put(role, hash_password(PASSWORD), role)


def wrong(app: Flask, ask: Ask) -> list[str]:
    """Where the service and the table differ."""
    found = []
    for right in rights(app):
        path = re.sub(r"\{[^}]*\}", "1", right.route)
        if (path, right.method) == FORM_ONLY:
            continue
        for caller in CALLERS:
            status = ask(right.method, path, BODY, {**JSON, **CREDENTIALS[caller]})
            if (status not in (401, 403)) != (caller in right.who):
                found.append(f"{caller} {right.method} {path}: {status}")
    return found


def settings_of(variables: Mapping[str, str], folder: Path) -> Settings:
    return Settings.from_env({**variables, "MODEL_DIR": str(folder)})


def test_every_route_is_for_whom_the_table_says(tmp_path: Path) -> None:
    with closing(new_store(tmp_path / "evenhand.db")) as store:
        add_everybody(store)
        app = create_app(settings_of({**VARIABLES, **LABEL_STUDIO}, tmp_path), store)

        def ask(method: str, path: str, body: bytes, headers: Mapping[str, str]) -> int:
            return app.test_client().open(path, method=method, data=body, headers=dict(headers)).status_code

        assert wrong(app, ask) == []
        assert ask("GET", "/versions", b"", basic(NAME, PASSWORD)) == 200  # the configured credential, not an account


@pytest.mark.slow
def test_the_running_service_keeps_to_the_table(tmp_path: Path) -> None:
    service = Service(tmp_path, {**VARIABLES, **LABEL_STUDIO})
    store = open_store(service.settings)
    add_everybody(store)
    app = create_app(service.settings, store)
    service.start()
    try:
        assert wrong(app, lambda method, path, body, headers: call(service, method, path, body, headers)[0]) == []
    finally:
        service.stop()
        service.log.close()
        store.close()


def test_table_names_every_method_of_every_route_once(tmp_path: Path) -> None:
    with closing(new_store(tmp_path / "evenhand.db")) as store:
        found: list[Right] = list(rights(create_app(Settings(model_dir=tmp_path), store)))
    assert len({(right.route, right.method) for right in found}) == len(found) > 40
    assert all(right.what for right in found)
