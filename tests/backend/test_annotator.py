"""One annotator's data: handed out whole, erased everywhere, and not brought back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from evenhand.administer.privacy import Person, erase_person, export_person, find_person
from evenhand.cli import main as program
from evenhand.domain import Batch, Project, ProjectRef, Review, RunResult, StoredEvidence, Trigger
from evenhand.errors import NotFoundError, StoreBusyError, UnusableValueError
from evenhand.ingest.pull import pull_project
from evenhand.ingest.reviews import take_reviews
from evenhand.label_studio.client import LabelStudioClient, project_epoch
from evenhand.label_studio.transport import Transport
from evenhand.project_config import ProjectConfig
from evenhand.publish import publish_project
from evenhand.publish.tabs import SUFFIX, title_of
from evenhand.runs.run import analyse, data_hash
from evenhand.runs.statistics import StatisticsCache
from evenhand.server.worker import Runs
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.engine import WRITE
from evenhand.store.schema import metadata
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, FakeLabelStudio
from harness.fake_label_studio import URL as FAKE_URL
from harness.filled import EMAIL, LEANS, NAME, OTHERS, URL, answer, answers, fill, tasks
from harness.judged import judged_answers

TRACES = (LEANS, NAME, EMAIL, NAME.split()[0], EMAIL.split("@")[0])
NOBODY = Settings()


def dump(store: Store) -> str:
    """The whole database as text."""
    with store.engine.connect() as connection:
        return "\n".join(
            f"{table.name}: {json.dumps([str(value) for value in row])}"
            for table in metadata.sorted_tables
            for row in connection.execute(select(table))
        )


def erase(store: Store, wanted: str = LEANS) -> Any:
    return erase_person(store, None, find_person(store, wanted), NOBODY, wait=1.0)


def test_export_holds_every_trace_of_the_person_and_nothing_of_others(store: Store) -> None:
    fill(store)
    document = export_person(store, find_person(store, LEANS))
    assert export_person(store, find_person(store, EMAIL.upper())) == document
    (project,) = document["projects"]
    assert document["names"] == sorted([NAME, EMAIL])
    assert len(project["comparisons"]) == 11
    assert len(project["changes"]) == 10
    assert len(project["run_annotators"]) == len(project["flags"]) == len(project["live_evidence"]) == 1
    assert [line["comment"] for line in project["decisions_about"]] == [f"spoke with {NAME}"]
    assert [line["comment"] for line in project["decisions_by"]] == ["as a reviewer"]
    assert project["notifications"][0]["payload"]["name"] == NAME
    assert project["publications"][0]["key"] == f"flag:{LEANS}"
    assert "ana@example.org" not in json.dumps(document)
    assert "salt" not in json.dumps(document)


def test_erasure_leaves_no_trace_in_any_table(store: Store) -> None:
    project = fill(store)
    before = dump(store)
    assert all(trace in before for trace in TRACES)
    report = erase(store)
    after = dump(store)
    assert [trace for trace in TRACES if trace in after] == []
    assert report.erased[project.id]["comparisons"] == 11
    assert report.erased[project.id]["decisions"] == 2
    assert any("alert webhook" in line for line in report.by_hand)
    with pytest.raises(NotFoundError, match="nobody"):
        find_person(store, LEANS)


def test_erasure_leaves_no_trace_in_the_sqlite_file(sqlite_store: Store, tmp_path: Path) -> None:
    fill(sqlite_store)
    erase(sqlite_store)
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("single.db*"))
    assert [trace for trace in TRACES if trace.encode() in stored] == []
    assert b"ana@example.org" in stored


def test_erasure_keeps_the_decision_chain_verifiable_and_tamper_evident(store: Store) -> None:
    project = fill(store)
    erase(store)
    check = store.decisions.verify(project.id)
    assert (check.intact, check.redacted, check.length) == (True, 2, 5)
    lines = store.decisions.page(project.id).rows
    assert lines[0]["decision"] == "erase"
    about = next(line for line in lines if line["decision"] == "confirm")
    assert about["annotator_id"].startswith("erased-")
    assert (about["comment"], about["salt"], about["decision"]) == ("", "", "confirm")
    by = next(line for line in lines if line["comment"] == "as a reviewer")
    assert (by["author"], by["annotator_id"], by["comment"]) == ("erased", "12", "as a reviewer")
    assert set(store.decisions.current(project.id)) == {"11", "12", about["annotator_id"]}
    store.decisions.add(project.id, "13", "watch", author="ana")
    assert store.decisions.verify(project.id).intact


def test_erasure_empties_comments_that_name_the_person_and_those_about_the_person_alone(store: Store) -> None:
    project = fill(store)
    for who, comment in (("12", f"sits beside {NAME}"), (LEANS, "no name"), ("12", "nobody's")):
        store.decisions.add(project.id, who, "watch", author="ana", comment=comment)
    erase(store)
    lines = [line for line in store.decisions.page(project.id).rows if line["decision"] == "watch"][:3]
    assert [line["comment"] for line in lines] == ["nobody's", "", ""]
    assert [line["annotator_id"][:6] for line in lines] == ["12", "erased", "12"]


NO_REDACTIONS = (
    "annotator_id = 'erased-x', salt = '', redacted_by = 9, decision = 'dismiss'",
    "annotator_id = 'somebody', salt = '', redacted_by = 9",
    "comment = 'other', salt = '', redacted_by = 9",
    "comment = '', salt = ''",
    "hash = 'x', salt = '', redacted_by = 9",
    "author = 'me', salt = '', redacted_by = 9",
    "detail = '{}', salt = '', redacted_by = 9",
)


def test_log_refuses_every_change_that_is_no_redaction(store: Store) -> None:
    fill(store)
    for change in NO_REDACTIONS:
        with pytest.raises(DBAPIError, match="append-only"), store.engine.begin() as connection:
            connection.execute(text(f"UPDATE decisions SET {change}"))


def test_redaction_nobody_vouches_for_is_found(store: Store) -> None:
    project = fill(store)
    with store.engine.connect().execution_options(**{WRITE: True}) as connection, connection.begin():
        connection.execute(text("UPDATE decisions SET comment = '', salt = '', redacted_by = 9 WHERE number = 1"))
    check = store.decisions.verify(project.id)
    assert (check.intact, check.broken_at) == (False, 1)


def world_without(tmp_path: Path) -> tuple[Store, Project]:
    """The same project as if the person had never been there."""
    store = new_store(tmp_path / "without.db")
    return store, fill(store, OTHERS)


def test_erasure_brings_sums_caches_and_the_next_run_to_a_world_without_the_person(
    store: Store, tmp_path: Path
) -> None:
    project = fill(store)
    cache = StatisticsCache(store)
    before = cache.catch_up(project).statistics
    assert LEANS in before.annotators
    erase(store)
    project = store.projects.get(project.id)
    current = cache.catch_up(project)
    other, its_project = world_without(tmp_path)
    expected = StatisticsCache(other).catch_up(its_project)
    assert data_hash(current.statistics) == data_hash(expected.statistics)
    assert project.counts["judged"] == its_project.counts["judged"]
    assert {key: value for key, value in project.counts.items() if key != "erased" and value} == {
        key: value for key, value in its_project.counts.items() if value
    }
    mine = analyse(store, project, current, lambda *_: None)
    theirs = analyse(other, its_project, expected, lambda *_: None)
    assert [row["annotator"] for row in mine.annotators] == [row["annotator"] for row in theirs.annotators]
    for one, two in zip(mine.annotators, theirs.annotators, strict=True):
        assert one["bias"] == pytest.approx(two["bias"], nan_ok=True)
    np.testing.assert_allclose([row["score"] for row in mine.items], [row["score"] for row in theirs.items])
    assert mine.summary == theirs.summary
    other.close()


def test_worker_that_was_running_runs_again_without_the_person(store: Store) -> None:
    project = fill(store)
    runs = Runs(store, "worker")
    store.runs.request(project.id, Trigger.MANUAL)
    assert runs.once()
    erase(store)
    assert runs.once()
    run = store.runs.latest(project.id)
    assert run is not None
    assert {row["annotator"] for row in store.findings.all(run.id)} == set(OTHERS)
    assert not runs.once()


def test_stored_runs_lose_the_person_and_keep_the_others(store: Store) -> None:
    project = fill(store)
    run = store.runs.latest(project.id)
    assert run is not None
    erase(store)
    assert {row["annotator"] for row in store.findings.all(run.id)} == set(OTHERS)
    path = store.runs.path(run.id)
    assert path is not None
    assert path["annotators"] == list(OTHERS)
    assert path["gamma"] == [[0.0] * 3, [0.5] * 3]


def test_events_names_and_evidence_after_the_erasure_do_not_bring_the_person_back(store: Store) -> None:
    project = fill(store)
    seq, live = store.projects.get(project.id).live_seq, store.live.get(project.id, OTHERS)
    erase(store)
    late = [answer(1000, LEANS, updated_at=2e9), answer(2000, LEANS), *answers((LEANS,))]
    store.comparisons.apply(project.id, Batch(comparisons=late))
    store.comparisons.apply(
        project.id, Batch(tasks=tasks(), comparisons=late, as_of=store.projects.begin_pull(project.id))
    )
    store.annotators.name(project.id, {LEANS: (NAME, EMAIL), "12": ("Ben", None)}, insert=True)
    row = StoredEvidence(LEANS, {}, 1.0, 1.0, 1, None)
    store.live.put(project.id, [row, *live.values()], from_seq=seq, to_seq=seq + 1)
    after = dump(store)
    assert [trace for trace in TRACES if trace in after] == []
    assert "Ben" in after
    assert LEANS not in judged_answers(store, project.id).annotator


def test_a_project_connected_later_does_not_bring_the_person_back(store: Store) -> None:
    fill(store)
    erase(store)
    later = store.projects.register(URL, ProjectRef(2, 200))
    store.comparisons.apply(later.id, Batch(comparisons=[answer(1, LEANS), answer(2, "11")]))
    assert judged_answers(store, later.id).annotator == ["11"]
    elsewhere = store.projects.register("http://other", ProjectRef(2, 200))
    store.comparisons.apply(elsewhere.id, Batch(comparisons=[answer(1, LEANS)]))
    assert judged_answers(store, elsewhere.id).annotator == [LEANS]


def test_review_of_an_erased_person_is_not_recorded(store: Store) -> None:
    project = fill(store)
    alerts = store.projects.register(URL, ProjectRef(5, 500), kind="alerts", alerts_for=project.id)
    erase(store)
    choice = {"from_name": "decision", "type": "choices", "value": {"choices": ["Confirm"]}}
    annotation = {"id": 1, "completed_by": 3, "updated_at": "2026-11-01T00:00:00Z", "result": [choice]}
    card = {"id": 1, "data": {"evenhand_project": project.id, "evenhand_annotator": LEANS}}
    assert take_reviews(store, alerts, [(annotation, card)], {}).recorded == 0


def test_review_taken_before_stays_known_under_its_key(store: Store) -> None:
    project = fill(store)
    review = Review(project.id, LEANS, "dismiss", "", "Label Studio user 3", "label-studio:5:1:100.0", 100.0)
    store.decisions.add_review(review)
    erase(store)
    total = store.decisions.page(project.id).total
    again, is_new = store.decisions.add_review(review)
    assert not is_new
    assert again.annotator_id.startswith("erased-")
    assert store.decisions.page(project.id).total == total


def test_readmitted_person_is_taken_in_again(store: Store) -> None:
    project = fill(store)
    erase(store)
    assert not store.people.readmit(URL, "12")
    assert store.people.readmit(URL, LEANS)
    assert store.projects.get(project.id).full_pull_needed
    store.comparisons.apply(
        project.id, Batch(comparisons=answers((LEANS,)), as_of=store.projects.begin_pull(project.id))
    )
    assert judged_answers(store, project.id).annotator.count(LEANS) == 10


def test_erasure_during_a_run_waits_and_then_gives_up_without_touching_anything(store: Store) -> None:
    project = fill(store)
    lease = store.leases.acquire(f"run:{project.id}", "a worker", 60.0)
    assert lease is not None
    before = dump(store)
    naps: list[float] = []
    with pytest.raises(StoreBusyError, match="nothing was erased"):
        erase_person(store, None, find_person(store, LEANS), NOBODY, wait=0.0, sleep=naps.append)
    store.leases.release(lease)
    strip = [line for line in dump(store).splitlines() if not line.startswith("leases")]
    assert strip == [line for line in before.splitlines() if not line.startswith("leases")]


def test_id_known_in_two_label_studios_has_to_be_chosen(store: Store) -> None:
    fill(store)
    other = store.projects.register("http://other", ProjectRef(1, 1))
    store.comparisons.apply(other.id, Batch(comparisons=[answer(1, LEANS)]))
    with pytest.raises(UnusableValueError, match="--label-studio"):
        find_person(store, LEANS)
    assert find_person(store, LEANS, "http://other") == Person("http://other", frozenset({LEANS}), frozenset())


def published_world(store: Store) -> tuple[FakeLabelStudio, LabelStudioClient, Project, str]:
    """A Label Studio in which one annotator has a card and stands in the tab."""
    server = FakeLabelStudio()
    number = server.add_project()
    leans = server.add_user(EMAIL, *NAME.split())
    for k in range(3):
        task = server.add_task(number, {"text1": f"a{k}", "text2": f"b{k}"}, overlap=2)
        server.annotate(task, leans, "left")
        server.annotate(task, 1, "right")
    client = LabelStudioClient(Transport(FAKE_URL, LEGACY_TOKEN, session=server.session()))
    config = ProjectConfig.model_validate({"publish": {"alerts": True, "tab": True}})
    project = store.projects.register(
        FAKE_URL, ProjectRef(number, project_epoch(server.projects[number])), config=config
    )
    pull_project(store, client, project, full=True)
    store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("test", 60.0)
    assert claimed is not None
    empty: dict[str, Any] = {}
    flags = [{"annotator_id": str(leans), "finding": "left side only", "evidence": {"bias": 0.9}}]
    result = RunResult(1, 0, empty, empty, empty, "", empty, empty, "", flags=list(flags))
    store.runs.finish(claimed[0].id, claimed[1], result)
    publish_project(store, client, store.projects.get(project.id), now=store.clock(), settings=NOBODY)
    return server, client, project, str(leans)


def test_erasure_withdraws_cards_and_tab_from_label_studio(store: Store) -> None:
    server, client, project, leans = published_world(store)
    shown = json.dumps([list(server.tasks.values()), list(server.views.values())], ensure_ascii=False)
    assert NAME in shown
    assert title_of(NAME) in shown
    report = erase_person(store, client, find_person(store, EMAIL), NOBODY, wait=1.0)
    shown = json.dumps([list(server.tasks.values()), list(server.views.values())], ensure_ascii=False)
    assert NAME not in shown
    assert SUFFIX not in shown
    assert len(report.withdrawn) == 2
    pull_project(store, client, store.projects.get(project.id), full=True)
    assert leans not in judged_answers(store, project.id).annotator
    assert [trace for trace in (NAME, EMAIL) if trace in dump(store)] == []
    last_pull = store.projects.get(project.id).last_pull
    assert last_pull is not None
    assert last_pull["difference"] == 0


def test_erasure_without_label_studio_lists_what_to_remove_by_hand(store: Store) -> None:
    server, client, _, _ = published_world(store)
    server.fail(100, 502)
    report = erase_person(store, client.hurried(), find_person(store, EMAIL), NOBODY, wait=1.0)
    assert any(line.startswith("cards in Label Studio project") for line in report.by_hand)
    assert any(line.startswith("the tab of") for line in report.by_hand)
    assert NAME not in dump(store)


def test_commands_export_erase_and_readmit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LABEL_STUDIO_URL", "LABEL_STUDIO_API_KEY", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MODEL_DIR", str(tmp_path))
    store = new_store(tmp_path / "evenhand.db")
    fill(store)
    run = CliRunner()
    shown = run.invoke(program, ["annotator", "export", LEANS])
    assert json.loads(shown.output)["names"] == sorted([NAME, EMAIL])
    written = run.invoke(program, ["annotator", "export", EMAIL, "--out", str(tmp_path / "p.json")])
    assert written.exit_code == 0, written.output
    assert (tmp_path / "p.json").stat().st_mode & 0o077 == 0
    asked = run.invoke(program, ["annotator", "erase", LEANS], input="n\n")
    assert asked.exit_code == 1
    assert LEANS in dump(store)
    done = run.invoke(program, ["annotator", "erase", LEANS, "--yes"])
    assert done.exit_code == 0, done.output
    assert "What remains to be done by hand" in done.output
    assert LEANS not in dump(store)
    assert run.invoke(program, ["annotator", "erase", LEANS, "--yes"]).exit_code == 1
    assert run.invoke(program, ["annotator", "readmit", LEANS, "--label-studio", URL]).exit_code == 0
    store.close()
