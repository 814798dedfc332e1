"""Input made to hurt: nasty files for `analyze`, odd values for every parser, the API against its own description."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from evenhand.app import create_app
from evenhand.domain import ProjectRef, Task
from evenhand.errors import PayloadError, RequestError, UnusableValueError
from evenhand.ingest.events import build_batch, handle_event
from evenhand.label_studio.payloads import read_comparison, read_event, read_setup, read_task
from evenhand.project_config import KEYS, parse_config
from evenhand.projects.reading import resolve
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.web.context import KEY
from flask import Flask
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fdr_core import Comparisons, FdrCoreError
from fdr_core.commands.analyze import analyze
from fdr_core.terminal import printable
from harness.databases import new_store
from harness.filled import fill
from harness.label_configs import PAIRWISE
from tests.fuzz.corpus import CORPUS, EITHER, READ, Nasty

ROOT = Path(__file__).resolve().parent.parent.parent
# A packed file is unpacked in memory, which the corpus's bomb of 300 MB makes use of.
SECONDS, MEGABYTES = 20.0, 700.0
QUICK = settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, dict[str, Any]]]:
    """What `evenhand analyze` did with each file of the corpus."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.fuzz.analyze_corpus", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-2000:]
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        yield {row["name"]: row for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("entry", CORPUS, ids=lambda entry: entry.name[:40])
def test_nasty_file_is_read_or_refused_with_a_message(entry: Nasty, outcomes: dict[str, dict[str, Any]]) -> None:
    row = outcomes[entry.name]
    assert row["exception"] == ""
    assert "Traceback" not in row["output"]
    allowed = {0, 2} if entry.outcome == EITHER else {0 if entry.outcome == READ else 2}
    assert row["exit"] in allowed, row["output"]
    assert entry.says in row["output"]
    assert row["seconds"] < SECONDS
    assert row["megabytes"] < MEGABYTES
    if row["exit"] == 2:
        assert row["output"].startswith(("Error: ", "Usage: "))
        assert len(row["output"]) < 3000


@pytest.mark.parametrize("name", ["terminal.csv", "terminal-header.csv", "bidi.csv"])
def test_names_with_control_characters_do_not_reach_the_terminal(name: str, tmp_path: Path) -> None:
    entry = next(entry for entry in CORPUS if entry.name == name)
    entry.make(tmp_path / name)
    options = [str(tmp_path / name), "--lbi", "draws=1", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(analyze, options, color=True)
    assert result.exit_code in (0, 2)
    shown = re.sub(r"\x1b\[31m\x1b\[1m([a-z ]+)\x1b\[0m", r"\1", result.output)  # our own colours
    assert not set("\x1b\x9b\u202e") & set(shown)


def test_printable_keeps_ordinary_text_and_escapes_the_rest() -> None:
    assert printable("Zoë 李 👩‍🔬\n\tx") == "Zoë 李 👩‍🔬\n\tx"
    assert printable("\x1b[2J\x07\x9b\u202e\ud800") == "\\x1b[2J\\x07\\x9b\\u202e\\ud800"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["left", "right", "2026-01-01T00:00:00Z", "1.1794803224", "\x00", "ANNOTATION_CREATED"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ANNOTATION_KEYS = ("id", "task", "completed_by", "result", "was_cancelled", "lead_time", "created_at", "updated_at")
ANNOTATION = st.dictionaries(st.sampled_from(ANNOTATION_KEYS), JSON | st.integers(1, 9), max_size=8)
EVENT = st.fixed_dictionaries(
    {"action": st.sampled_from(["ANNOTATION_CREATED", "TASKS_DELETED", "PROJECT_UPDATED", "ANNOTATIONS_DELETED"])},
    optional={
        "annotation": ANNOTATION | st.lists(ANNOTATION, max_size=3) | JSON,
        "task": st.fixed_dictionaries({"id": st.integers(-1, 9) | JSON}, optional={"data": JSON}) | JSON,
        "tasks": JSON,
        "project": st.just({"id": 1, "created_at": "2026-11-16T00:00:00Z"}) | JSON,
    },
)


@pytest.fixture(scope="module")
def scratch() -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        store = new_store(Path(folder) / "scratch.db")
        yield store
        store.close()


@QUICK
@given(body=EVENT | JSON)
def test_event_of_any_shape_is_stored_or_refused(body: Any, scratch: Store) -> None:
    with suppress(RequestError):
        assert handle_event(scratch, Settings(), read_event(body))["ok"]


@QUICK
@given(body=JSON | st.fixed_dictionaries({"project": st.just("1.1"), "schema": st.text(), "extra_params": JSON}))
def test_setup_of_any_shape_is_read_or_refused(body: Any) -> None:
    with suppress(PayloadError):
        read_setup(body)


@QUICK
@given(annotation=ANNOTATION, task=st.dictionaries(st.sampled_from(["id", "data", "is_labeled"]), JSON))
def test_annotation_of_any_shape_is_kept_with_a_status(annotation: Any, task: Any) -> None:
    reading = resolve(parse_config({}), PAIRWISE)
    stored: Task | None = None
    with suppress(PayloadError):
        stored = read_task(task, reading)
    with suppress(PayloadError):
        row = read_comparison(annotation, stored, reading)
        assert (row.outcome is not None) == (row.status in ("answer", "prediction"))


@QUICK
@given(annotations=st.lists(ANNOTATION, max_size=4))
def test_batch_of_any_annotations_with_ids_is_stored(annotations: list[dict[str, Any]], scratch: Store) -> None:
    project = scratch.projects.register("", ProjectRef(77, 7), label_config=PAIRWISE)
    sound = [{**raw, "id": number} for number, raw in enumerate(annotations, start=1)]
    with suppress(PayloadError):  # a task that is no number; events are checked for it before
        applied = scratch.comparisons.apply(project.id, build_batch(scratch, project, sound, []))
        assert applied.inserted + applied.updated + applied.unchanged == len(sound)


@QUICK
@given(values=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), JSON, max_size=5))
def test_project_settings_of_any_value_are_taken_or_refused(values: dict[str, Any]) -> None:
    with suppress(UnusableValueError):
        parsed = parse_config(values)
        assert parse_config(parsed.to_json()) == parsed


@QUICK
@given(xml=st.text(alphabet="<>/=\"' $ViewPairwisetoNamevalu&;![]\x00é", max_size=200) | st.text())
def test_label_config_of_any_text_is_read_or_refused(xml: str) -> None:
    with suppress(UnusableValueError):
        resolve(parse_config({}), xml)


CELL = st.text(alphabet='ab,;"\n\r\t 1-.é\x00', max_size=6) | st.sampled_from(["left", "right", "tie", "1", "nan"])


@QUICK
@given(
    header=st.lists(st.sampled_from(["annotator", "left", "right", "choice", "outcome", "coin", "x", ""]), max_size=6),
    rows=st.lists(st.lists(CELL, max_size=6), max_size=6),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_table_of_any_cells_is_read_or_refused(header: list[str], rows: list[list[str]], end: str) -> None:
    text = end.join(",".join(cells) for cells in (header, *rows))
    with tempfile.TemporaryDirectory() as folder, suppress(FdrCoreError):
        path = Path(folder) / "x.csv"
        path.write_text(text, encoding="utf-8", newline="")
        assert len(Comparisons.from_csv(path)) > 0


@pytest.mark.slow
@QUICK
@given(
    tasks=JSON
    | st.lists(st.fixed_dictionaries({"id": st.integers(), "data": JSON, "annotations": st.lists(ANNOTATION)}))
)
def test_export_of_any_shape_is_read_or_refused(tasks: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, suppress(FdrCoreError):
        path = Path(folder) / "x.json"
        path.write_text(json.dumps(tasks), encoding="utf-8")
        assert len(Comparisons.from_label_studio(path)) > 0


# -- the service against its own description


def service() -> Flask:
    """The service on a filled database, open to this process."""
    folder = Path(tempfile.mkdtemp(prefix="evenhand-schema-"))
    store = new_store(folder / "service.db")
    fill(store)
    store.users.delete("ana")  # without accounts the service is open to this machine
    return create_app(Settings(), store)


def described() -> Any:
    import schemathesis  # loaded by the one test that needs it: a second for each process that only collects

    app = service()

    token = f"Bearer {app.extensions[KEY].open_token}"

    def local(environ: dict[str, Any], start: Any) -> Any:
        return app({"HTTP_AUTHORIZATION": token, **environ, "REMOTE_ADDR": "127.0.0.1"}, start)

    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", local)


@pytest.fixture(scope="module")
def api() -> Any:
    return described()


@pytest.mark.slow
def test_every_operation_answers_as_described(api: Any) -> None:
    checked = []
    for found in api.get_all_operations():
        operation = found.ok()
        _check_operation(operation)
        checked.append(operation.path)
    assert {"/webhook", "/setup", "/predict", "/api/v1/projects/{project_id}/decisions"} <= set(checked)


def _check_operation(operation: Any) -> None:
    """Call one operation with made-up values that fit its description, and some that do not."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as openapi

    checks = [
        not_a_server_error,
        openapi.status_code_conformance,
        openapi.content_type_conformance,
        openapi.response_schema_conformance,
    ]

    @settings(
        max_examples=10, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        answer = case.call()
        assert answer.status_code < 500, answer.text
        assert "Traceback" not in answer.text
        case.validate_response(answer, checks=checks)

    call()
