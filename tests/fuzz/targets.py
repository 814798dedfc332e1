"""What is fuzzed: each target takes bytes and may raise only the errors that callers are promised."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evenhand.app import create_app
from evenhand.errors import RequestError, UnusableValueError
from evenhand.json_values import parse_json
from evenhand.label_studio.payloads import read_comparison, read_event, read_review, read_setup, read_task
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.projects.reading import resolve
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.backup import BackupError, read_manifest, write_backup
from evenhand.store.engine import migrate, open_engine

from fdr_core import Comparisons, FdrCoreError
from fdr_core.inputs.label_studio.setup import parse_label_config
from harness.label_configs import PAIRWISE
from harness.opened import client_of

ROOT = Path(__file__).resolve().parent.parent.parent
PAYLOADS = ROOT / "tests" / "data" / "payloads"
CHOICES = (
    '<View><Choices name="c" toName="t"><Choice value="left"/><Choice value="right" alias="r"/></Choices>'
    '<Text name="t" value="$a"/><Rating name="r" toName="t" maxRating="9"/></View>'
)
CSV = b"annotator,left,right,choice,time\np1,a,b,left,1\np2,b,c,right,2.5\np1,c,a,tie,\n"


#: Set by the parent of a campaign, which removes the folder: a fuzzer ends without cleaning up.
FOLDER = "EVENHAND_FUZZ_FOLDER"


class ServerError(AssertionError):
    """The service answered with 5xx."""


@dataclass(frozen=True)
class Target:
    """One function to feed, what it starts from, and how many of 1,000 inputs it gets."""

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    share: int


@cache
def folder() -> Path:
    """Where inputs become files: in memory if there is such a place."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    return Path(tempfile.mkdtemp(prefix="evenhand-fuzz-", dir=os.environ.get(FOLDER) or memory))


def clean_up() -> None:
    """Remove what the targets wrote."""
    shutil.rmtree(folder(), ignore_errors=True)


def _file(data: bytes, name: str) -> Path:
    path = folder() / name
    path.write_bytes(data)
    return path


@cache
def _payloads() -> list[bytes]:
    bodies = []
    for path in sorted(PAYLOADS.glob("*.json")):
        captured = json.loads(path.read_text(encoding="utf-8"))
        for entry in captured if isinstance(captured, list) else [captured]:
            body = entry.get("body", entry) if isinstance(entry, dict) else entry
            bodies.append(json.dumps(body).encode())
    return bodies


def _protocol(data: bytes) -> None:
    """Bodies as Label Studio sends them."""
    try:
        body = parse_json(data)
    except RequestError:
        return
    for read in (read_event, read_setup):
        with suppress(RequestError):
            read(body)
    reading = _reading()
    parts = body if isinstance(body, list) else [body]
    for part in parts[:20]:
        if isinstance(part, dict):
            task = None
            with suppress(RequestError):
                task = read_task(part, reading)
            with suppress(RequestError):
                read_comparison(part, task, reading)
            with suppress(RequestError):
                read_review(part, part, 1)


@cache
def _reading() -> Any:
    return resolve(ProjectConfig.model_validate({}), PAIRWISE, ("text1", "text2"))


def _label_config(data: bytes) -> None:
    xml = data.decode("utf-8", "replace")
    with suppress(FdrCoreError):
        parse_label_config.__wrapped__(xml)
    with suppress(UnusableValueError):
        resolve(ProjectConfig.model_validate({}), xml, ("a", "b"))


def _config(data: bytes) -> None:
    try:
        values = parse_json(data)
    except RequestError:
        return
    if isinstance(values, dict):
        with suppress(UnusableValueError):
            parsed = parse_config(values)
            parse_config(parsed.to_json())


def _csv(data: bytes) -> None:
    with suppress(FdrCoreError):
        Comparisons.from_csv(_file(data, "x.csv"))


def _parquet(data: bytes) -> None:
    with suppress(FdrCoreError):
        Comparisons.from_parquet(_file(data, "x.parquet"))


def _export(data: bytes) -> None:
    with suppress(FdrCoreError):
        Comparisons.from_label_studio(_file(data, "x.json"))


def _backup(data: bytes) -> None:
    with suppress(BackupError):
        read_manifest(_file(data, "x.zip"))


@cache
def _client() -> Any:
    """The service on an empty database, called in process."""
    engine = open_engine(f"sqlite:///{folder() / 'service.db'}")
    migrate(engine)
    return client_of(create_app(Settings(), Store(engine)))


def _post(path: str, data: bytes) -> None:
    answer = _client().post(path, data=data, content_type="application/json")
    if answer.status_code >= 500 or b"Traceback" in answer.data:
        raise ServerError(f"POST {path} answered {answer.status_code}: {answer.data[:300]!r}")


def _http(data: bytes) -> None:
    """The first byte chooses the route."""
    routes = ("/webhook", "/setup", "/predict", "/api/v1/projects/1/decisions")
    _post(routes[data[0] % len(routes)] if data else routes[0], data[1:])


def _paths(data: bytes) -> None:
    """Addresses and queries."""
    text = data.decode("latin-1").replace("\x00", "%00")
    answer = _client().get("/" + text.lstrip("/"))
    if answer.status_code >= 500 or b"Traceback" in answer.data:
        raise ServerError(f"GET {text!r} answered {answer.status_code}")


def _parquet_seeds() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    seeds = []
    for outcome in ([1.0, -1.0, 0.5], [1, -1, 0]):
        sink = io.BytesIO()
        columns = {"annotator": ["p", "q", "p"], "left": ["a", "b", "c"], "right": ["b", "c", "a"], "outcome": outcome}
        pq.write_table(pa.table(columns), sink)
        seeds.append(sink.getvalue())
    return seeds


def _backup_seeds() -> list[bytes]:
    engine = open_engine(f"sqlite:///{folder() / 'seed.db'}")
    migrate(engine)
    sink = io.BytesIO()
    write_backup(engine, sink)
    engine.dispose()
    return [sink.getvalue()]


def _export_seeds() -> list[bytes]:
    named = [PAYLOADS / f"export_{name}.json" for name in ("JSON_one_task", "JSON_MIN_one")]
    bodies = [json.loads(path.read_text(encoding="utf-8")) for path in named]
    return [json.dumps(body if isinstance(body, list) else [body]).encode() for body in bodies]


def _path_seeds() -> list[bytes]:
    return [
        b"api/v1/projects/1/annotators?limit=5&cursor=W10&sort=bias&order=desc&search=%25",
        b"api/v1/projects/1/runs/1/report.html?pseudonymise=1",
        b"ui/projects/1/annotator?id=..%2f..%2fetc%2fpasswd",
        b"ui/login?next=//evil.example",
        b"ui/static/../../settings.py",
        b"versions?project=1.2",
        b"metrics",
    ]


TARGETS: tuple[Target, ...] = (
    Target("protocol", _protocol, _payloads, 260),
    Target("label config", _label_config, lambda: [PAIRWISE.encode(), CHOICES.encode()], 150),
    Target(
        "project settings",
        _config,
        lambda: [b'{"q": 0.1, "answers": "left=1,B is worse=left", "publish": "tab,alerts", "copies": 5}'],
        110,
    ),
    Target("csv", _csv, lambda: [CSV, CSV.replace(b",", b";"), b"worker,left,right,label\nw,a,b,a\n"], 150),
    Target("parquet", _parquet, _parquet_seeds, 70),
    Target("export", _export, _export_seeds, 110),
    Target("backup", _backup, _backup_seeds, 30),
    Target("http bodies", _http, lambda: [bytes([n % 4]) + body for n, body in enumerate(_payloads())], 70),
    Target("http paths", _paths, _path_seeds, 50),
)
