"""Backups: consistent while somebody writes, the same on both databases, restored whole or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import threading
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from evenhand.cli import main as program
from evenhand.domain import Batch, ProjectRef, Trigger
from evenhand.errors import ConflictError
from evenhand.private_files import write_private
from evenhand.store import Store
from evenhand.store import backup as backup_seals
from evenhand.store.backup import MANIFEST, BackupError, read_manifest, restore, write_backup
from evenhand.store.engine import migrate, open_engine
from evenhand.store.schema import metadata
from sqlalchemy import select, text

from harness.databases import new_store
from harness.filled import answer, fill, tasks
from harness.postgres import PostgresServer

LATER = {"leases", "login_failures"}


def contents(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table that a backup holds."""
    with store.engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
            for table in metadata.sorted_tables
            if table.name not in LATER
        }


def back_up(store: Store, path: Path) -> None:
    with write_private(path) as file:
        write_backup(store.engine, file)


def reopened(url: str) -> Store:
    engine = open_engine(url)
    migrate(engine)
    return Store(engine)


def test_backup_restored_elsewhere_holds_the_same_rows(store: Store, tmp_path: Path) -> None:
    project = fill(store)
    back_up(store, tmp_path / "b.zip")
    url = f"sqlite:///{tmp_path / 'restored' / 'evenhand.db'}"
    manifest, notes = restore(url, tmp_path / "b.zip", replace=False)
    assert notes == []
    assert manifest.rows > 100
    copy = reopened(url)
    assert contents(copy) == contents(store)
    assert copy.decisions.verify(project.id).intact
    assert copy.decisions.verify(project.id).length == 4
    copy.close()


@pytest.mark.postgres
@pytest.mark.parametrize("source", ["sqlite", "postgres"])
def test_backup_restored_into_postgres_holds_the_same_rows_and_goes_on_numbering(
    source: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    here = new_store(tmp_path / "here.db") if source == "sqlite" else reopened(postgres_server.migrated_database())
    project = fill(here)
    back_up(here, tmp_path / "b.zip")
    url = postgres_server.new_database()
    restore(url, tmp_path / "b.zip", replace=False)
    copy = reopened(url)
    assert contents(copy) == contents(here)
    asked = [store.runs.request(project.id, Trigger.SCHEDULE) for store in (here, copy)]
    assert asked[0].id == asked[1].id > 1
    with pytest.raises(Exception, match="append-only"), copy.engine.begin() as connection:
        connection.execute(text("DELETE FROM decisions"))
    here.close()
    copy.close()


def test_numbers_of_dropped_runs_are_not_given_out_again(sqlite_store: Store, tmp_path: Path) -> None:
    project = fill(sqlite_store)
    dropped = sqlite_store.runs.request(project.id, Trigger.SCHEDULE)
    claimed = sqlite_store.runs.claim("test", 60.0)
    assert claimed is not None
    sqlite_store.runs.drop(dropped.id, claimed[1])
    back_up(sqlite_store, tmp_path / "b.zip")
    url = f"sqlite:///{tmp_path / 'copy.db'}"
    restore(url, tmp_path / "b.zip", replace=False)
    copy = reopened(url)
    assert copy.runs.request(project.id, Trigger.MANUAL).id > dropped.id
    copy.close()


@pytest.mark.slow
def test_backup_while_somebody_writes_is_one_moment_of_the_sequence(store: Store, tmp_path: Path) -> None:
    """The writer adds answers in pairs; a backup must hold a prefix of them, with counts and changes to match."""
    project = store.projects.register("http://ls", ProjectRef(1, 100))
    store.comparisons.apply(project.id, Batch(tasks=tasks()))
    stop, failures = threading.Event(), list[BaseException]()

    def write() -> None:
        number = 0
        try:
            while not stop.is_set() and number < 4000:
                pair = [answer(number + 1, "11", outcome=1.0), answer(number + 2, "12", outcome=-1.0)]
                store.comparisons.apply(project.id, Batch(comparisons=pair))
                number += 2
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    sizes = []
    try:
        for turn in range(4):
            back_up(store, tmp_path / f"{turn}.zip")
            sizes.append(_check_one_moment(tmp_path / f"{turn}.zip", tmp_path / f"{turn}.db"))
    finally:
        stop.set()
        writer.join()
    assert failures == []
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0], "nothing was written meanwhile: the test saw no race"


def _check_one_moment(path: Path, target: Path) -> int:
    restore(f"sqlite:///{target}", path, replace=False)
    copy = reopened(f"sqlite:///{target}")
    (project,) = copy.projects.all()
    rows = copy.comparisons.rows(project.id)
    ids = [row["annotation_id"] for row in rows]
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) % 2 == 0
    assert sum(row["outcome"] for row in rows) == 0
    assert project.counts.get("judged", 0) == len(ids)
    changes = copy.comparisons.changes_since(project.id, 0)
    assert [change.annotation_id for change in changes] == ids
    assert max([change.seq for change in changes], default=project.seq) == project.seq
    copy.close()
    return len(ids)


@pytest.fixture(scope="module")
def whole_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    with closing(new_store(folder / "single.db")) as store:
        fill(store)
        back_up(store, folder / "good.zip")
    return folder / "good.zip"


@pytest.fixture
def archive(whole_archive: Path, tmp_path: Path) -> Path:
    """A backup of a filled store, to be damaged at will."""
    return Path(shutil.copy(whole_archive, tmp_path))


def rewritten(path: Path, changes: Mapping[str, Callable[[bytes], bytes | None]]) -> Path:
    """A copy of an archive with some entries changed or left out."""
    target = path.with_name("changed.zip")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as sink:
        for name in dict.fromkeys((*source.namelist(), *changes)):
            content = source.read(name) if name in source.namelist() else b""
            data = changes[name](content) if name in changes else content
            if data is not None:
                sink.writestr(name, data)
        sink.comment = backup_seals.PLACEHOLDER
    with target.open("r+b") as file:
        backup_seals.seal(file)
    return target


def manifest_with(**values: Any) -> dict[str, Callable[[bytes], bytes]]:
    return {MANIFEST: lambda content: json.dumps({**json.loads(content), **values}).encode()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tables/decisions.jsonl": lambda content: content.replace(b"confirm", b"dismiss")}, "damaged"),
        ({"tables/changes.jsonl": lambda content: content[: len(content) // 2]}, "damaged"),
        ({"tables/items.jsonl": lambda _: None}, "damaged at table 'items'"),
        ({"tables/items.jsonl": lambda content: content + b"[1]\n"}, "damaged"),
        ({MANIFEST: lambda _: None}, "not a backup of Evenhand"),
        ({MANIFEST: lambda _: b"[]"}, "not a backup of Evenhand"),
        ({MANIFEST: lambda _: b"\x00\xff"}, "not a backup of Evenhand"),
        (manifest_with(version=3), "does not know"),
        (manifest_with(revision="9999"), "does not know"),
        (manifest_with(tables=[{"name": 1}]), "manifest is damaged"),
        (manifest_with(format="zip"), "not a backup of Evenhand"),
    ],
)
def test_archive_that_is_damaged_or_newer_is_refused_and_changes_nothing(
    archive: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    target = new_store(tmp_path / "target.db")
    fill(target, ("11", "12"))
    before = contents(target)
    target.close()
    with pytest.raises(BackupError, match=message):
        restore(f"sqlite:///{tmp_path / 'target.db'}", rewritten(archive, changes), replace=True)
    after = reopened(f"sqlite:///{tmp_path / 'target.db'}")
    assert contents(after) == before
    after.close()
    assert list(tmp_path.glob(".target*")) == []


@pytest.mark.parametrize("cut", [0, 1, 100, -100, -1])
def test_archive_that_was_cut_off_is_refused(archive: Path, cut: int) -> None:
    archive.write_bytes(archive.read_bytes()[:cut])
    with pytest.raises(BackupError, match=r"not a backup of Evenhand|damaged"):
        read_manifest(archive)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_flipped_byte_is_noticed(archive: Path, step: int) -> None:
    """Of the data, of the ZIP's own records (names, dates, attributes) and of the seal itself."""
    whole = archive.read_bytes()
    ends = range(len(whole) - 1500, len(whole), step)  # the ZIP's directory and the seal
    for place in (*range(0, len(whole), max(1, len(whole) // 300)), *ends):
        archive.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(BackupError):
            read_manifest(archive)


def changed_rows(archive: Path, table: str, change: Callable[[dict[str, Any]], None]) -> Path:
    """A well-formed archive, sums and seal included, in which one value of every row was changed."""
    with zipfile.ZipFile(archive) as opened:
        listed = json.loads(opened.read(MANIFEST))["tables"]
        (part,) = [part for part in listed if part["name"] == table]
        rows = [json.loads(line) for line in opened.read(f"tables/{table}.jsonl").splitlines()]
    named = [dict(zip(part["columns"], row, strict=True)) for row in rows]
    for row in named:
        change(row)
    data = b"".join(json.dumps([row[name] for name in part["columns"]]).encode() + b"\n" for row in named)
    part.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    return rewritten(archive, {**manifest_with(tables=listed), f"tables/{table}.jsonl": lambda _: data})


@pytest.mark.parametrize(
    ("table", "values"),
    [
        ("projects", {"config": {"q": "a lot"}}),
        ("projects", {"config": [1, 2]}),
        ("projects", {"counts": {"judged": "many"}}),
        ("projects", {"seq": "seven"}),
        ("projects", {"seq": 2**70}),
        ("comparisons", {"outcome": "left"}),
        ("comparisons", {"annotator_id": 7}),
        ("users", {"password_hash": 5}),
    ],
)
def test_backup_with_values_of_the_wrong_kind_is_refused_with_a_message(
    tmp_path: Path, sqlite_store: Store, table: str, values: dict[str, Any]
) -> None:
    fill(sqlite_store)
    sqlite_store.users.put("ana", "hash")
    back_up(sqlite_store, tmp_path / "good.zip")
    changed = changed_rows(tmp_path / "good.zip", table, lambda row: row.update(values))
    variables = {"MODEL_DIR": str(tmp_path / "empty")}
    done = CliRunner().invoke(program, ["restore", str(changed)], env=variables)
    assert done.exit_code == 1
    assert "nothing was restored" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    "values", [{"created_at": 1e300}, {"created_at": "now"}, {"last_ids": {"runs": -1}}, {"last_ids": {}}]
)
def test_backup_whose_manifest_holds_impossible_numbers_is_refused(archive: Path, values: dict[str, Any]) -> None:
    done = CliRunner().invoke(program, ["restore", "--check", str(rewritten(archive, manifest_with(**values)))])
    assert (done.exit_code, "manifest is damaged" in done.output) == (1, True)


def test_rows_that_contradict_each_other_leave_the_database_as_it_was(
    archive: Path, store: Store, database_url: str
) -> None:
    """A well-formed archive whose runs belong to no project: the foreign keys refuse it in the middle of loading."""
    fill(store, ("11", "12"))
    before = contents(store)
    store.close()
    with zipfile.ZipFile(archive) as opened:
        listed = json.loads(opened.read(MANIFEST))["tables"]
    empty = {"bytes": 0, "rows": 0, "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    tables = [{**part, **(empty if part["name"] == "projects" else {})} for part in listed]
    changed = rewritten(archive, {**manifest_with(tables=tables), "tables/projects.jsonl": lambda _: b""})
    with pytest.raises(BackupError, match="nothing was restored"):
        restore(database_url, changed, replace=True)
    after = reopened(database_url)
    assert contents(after) == before
    after.close()


def test_database_with_work_in_it_is_replaced_only_when_asked(
    archive: Path, whole_archive: Path, store: Store, database_url: str
) -> None:
    fill(store, ("11", "12"))
    store.close()
    with pytest.raises(ConflictError, match="--replace"):
        restore(database_url, archive, replace=False)
    restore(database_url, archive, replace=True)
    after, source = reopened(database_url), reopened(f"sqlite:///{whole_archive.with_name('single.db')}")
    assert contents(after) == contents(source)
    after.close()
    source.close()


def test_restore_under_a_running_service_is_refused(archive: Path, store: Store, database_url: str) -> None:
    fill(store)
    with store.engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        with pytest.raises(ConflictError, match="stop the service"):
            restore(database_url, archive, replace=True)


def test_commands_back_up_check_and_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    store = new_store(tmp_path / "data" / "evenhand.db")
    fill(store)
    file = str(tmp_path / "evenhand.backup")
    run = CliRunner()
    made = run.invoke(program, ["backup", file])
    assert made.exit_code == 0, made.output
    assert "rows of" in made.output
    assert Path(file).stat().st_mode & 0o077 == 0
    assert "--force" in run.invoke(program, ["backup", file]).output
    assert run.invoke(program, ["backup", file, "--force"]).exit_code == 0
    assert "is whole" in run.invoke(program, ["restore", file, "--check"]).output
    assert "stop the service" in run.invoke(program, ["restore", file, "--replace"]).output
    store.close()
    refused = run.invoke(program, ["restore", file])
    assert (refused.exit_code, "--replace" in refused.output) == (1, True)
    done = run.invoke(program, ["restore", file, "--replace"])
    assert (done.exit_code, "is restored" in done.output) == (0, True)


@pytest.mark.parametrize("command", [["backup", "b.zip"], ["restore", "nothing.zip"], ["restore", "."]])
def test_commands_without_a_database_or_file_say_so(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODEL_DIR", "data")
    done = CliRunner().invoke(program, command)
    assert done.exit_code in (1, 2)
    assert "Traceback" not in done.output
    assert not (tmp_path / "b.zip").exists()
    assert not (tmp_path / "data" / "evenhand.db").exists()


def test_backup_that_cannot_be_finished_leaves_no_file(sqlite_store: Store, tmp_path: Path) -> None:
    fill(sqlite_store)
    with sqlite3.connect(tmp_path / "single.db") as broken:
        broken.execute("DROP TABLE alembic_version")
    with pytest.raises(BackupError, match="empty"):
        back_up(sqlite_store, tmp_path / "b.zip")
    assert list(tmp_path.glob("*b.zip*")) == []
    assert list(tmp_path.glob(".b.zip*")) == []
