"""Backups made by somebody who wants to break the restore: refused or survived, and nothing that was there is lost."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from evenhand.cli import main as program
from evenhand.store.backup import MANIFEST

from harness.databases import new_store
from harness.filled import fill
from tests.backend.test_backup import archive, contents, manifest_with, reopened, rewritten, whole_archive

__all__ = ["archive", "whole_archive"]
BOMB = 80_000_000


def restored(path: Path, target: Path) -> tuple[int, str]:
    """What the command says, on a database that holds something."""
    before = None
    with closing(new_store(target / "evenhand.db")) as store:
        fill(store, ("11", "12"))
        before = contents(store)
    variables = {"MODEL_DIR": str(target), "DATABASE_URL": f"sqlite:///{target / 'evenhand.db'}"}
    done = CliRunner().invoke(program, ["restore", str(path), "--replace"], env=variables)
    assert "Traceback" not in done.output
    with closing(reopened(f"sqlite:///{target / 'evenhand.db'}")) as store:
        assert done.exit_code == 0 or contents(store) == before
    return done.exit_code, done.output


def with_tables(path: Path, change: Callable[[list[dict[str, Any]]], None], **entries: bytes) -> Path:
    """The archive with another list of tables, sealed anew."""
    with zipfile.ZipFile(path) as opened:
        listed = json.loads(opened.read(MANIFEST))["tables"]
    change(listed)
    added = {f"tables/{name}.jsonl": partial(_instead, data) for name, data in entries.items()}
    return rewritten(path, {**manifest_with(tables=listed), **added})


def _instead(data: bytes, _: bytes) -> bytes:
    return data


def test_entries_that_climb_out_of_the_folder_write_nothing_there(archive: Path, tmp_path: Path) -> None:
    climbing = ("../../climbed", "/tmp/evenhand-climbed", "tables/../../climbed", "..\\climbed")
    with zipfile.ZipFile(archive) as opened:
        everything = {name: opened.read(name) for name in opened.namelist()}
    with zipfile.ZipFile(archive, "w") as sink:
        for name, data in {**everything, **dict.fromkeys(climbing, b"x")}.items():
            sink.writestr(name, data)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    restored(rewritten(archive, {}), inner)
    assert list(tmp_path.rglob("*climbed*")) == []
    assert not Path("/tmp/evenhand-climbed").exists()


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "sqlite_master", "leases", 'x"; DROP TABLE users; --', "alembic_version"]
)
def test_table_of_another_schema_is_refused(archive: Path, tmp_path: Path, name: str) -> None:
    def foreign(listed: list[dict[str, Any]]) -> None:
        empty = hashlib.sha256(b"").hexdigest()
        listed.append({"name": name, "columns": ["name"], "rows": 0, "bytes": 0, "sha256": empty})

    code, said = restored(with_tables(archive, foreign, **{name: b""}), tmp_path)
    assert (code, "is not that of schema" in said) == (1, True)


def test_columns_of_another_schema_are_refused(archive: Path, tmp_path: Path) -> None:
    def foreign(listed: list[dict[str, Any]]) -> None:
        listed[0]["columns"].append("extra")

    assert restored(with_tables(archive, foreign), tmp_path)[0] == 1


def test_bomb_of_one_line_is_refused(archive: Path, tmp_path: Path) -> None:
    """Eighty megabytes of one line in eighty kilobytes, every sum and the seal right."""
    content = b" " * BOMB

    def bomb(listed: list[dict[str, Any]]) -> None:
        (part,) = [part for part in listed if part["name"] == "items"]
        part.update(bytes=BOMB, rows=0, sha256=hashlib.sha256(content).hexdigest())

    changed = with_tables(archive, bomb, items=content)
    assert changed.stat().st_size < 1_000_000
    assert restored(changed, tmp_path)[0] == 1


def test_bomb_beyond_what_the_manifest_says_is_not_unfolded(archive: Path, tmp_path: Path) -> None:
    changed = rewritten(archive, {"tables/items.jsonl": lambda content: content + b" " * BOMB})
    assert restored(changed, tmp_path)[0] == 1


def test_forged_seal_does_not_hide_a_changed_decision(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        lines = opened.read("tables/decisions.jsonl")
    forged = lines.replace(b'"confirm"', b'"dismiss"')
    assert forged != lines

    def resealed(listed: list[dict[str, Any]]) -> None:
        (part,) = [part for part in listed if part["name"] == "decisions"]
        part.update(bytes=len(forged), sha256=hashlib.sha256(forged).hexdigest())

    code, said = restored(with_tables(archive, resealed, decisions=forged), tmp_path)
    assert (code, "is broken at line" in said) == (0, True)
