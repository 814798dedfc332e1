"""Runs from stored answers: statistics, live evidence, the queue, failures, takeover."""

import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from evenhand.domain import Batch, Comparison, Project, Run, Task, Trigger
from evenhand.errors import ConflictError
from evenhand.project_config import ProjectConfig
from evenhand.runs.live import LiveDesk
from evenhand.runs.report import STAGE_WORDS
from evenhand.runs.run import analyse, data_hash, evidence_in_time, tell_stage
from evenhand.runs.statistics import StatisticsCache
from evenhand.server.worker import Runs
from evenhand.store import Store

from fdr_core import Comparisons, detect
from fdr_core.spending import Spending
from harness.judged import judged_answers
from tests.backend.conftest import FakeClock
from tests.backend.stored_crowd import crowd_rows
from tests.backend.test_store_runs import finish


def quiet(share: float, note: str) -> None:
    """Take progress and say nothing."""


def test_catch_up_after_edits_and_deletions_equals_a_rebuild(store: Store, project: Project) -> None:
    rows, _ = crowd_rows()
    cache = StatisticsCache(store)
    store.comparisons.apply(project.id, Batch(comparisons=rows[:300]))
    cache.catch_up(store.projects.get(project.id))
    edited = [replace(row, outcome=-row.outcome, updated_at=row.updated_at + 9) for row in rows[:40]]
    store.comparisons.apply(project.id, Batch(comparisons=[*edited, *rows[300:]]))
    store.comparisons.apply(project.id, Batch(deleted_annotations=[row.annotation_id for row in rows[50:90]]))
    current = cache.catch_up(store.projects.get(project.id))
    fresh = judged_answers(store, project.id).statistics("task")
    assert current.seq == store.projects.get(project.id).seq
    assert current.statistics == fresh
    assert len(fresh) == len(rows) - 40
    assert data_hash(current.statistics) == data_hash(fresh)
    assert np.allclose(np.sort(current.statistics.sums.Ay), np.sort(fresh.sums.Ay))


def test_run_finds_the_biased_and_stores_everything(store: Store, project: Project) -> None:
    rows, biased = crowd_rows()
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    run = store.runs.request(project.id, Trigger.MANUAL, "tester")
    assert Runs(store, "me").once()
    done = store.runs.get(run.id)
    assert done.status == "done", done.error
    table = store.findings.all(run.id)
    flagged = {row["annotator"] for row in table if row["flagged"]}
    assert biased <= flagged
    assert len(flagged) <= len(biased) + 1
    assert {row["annotator_id"] for row in store.flags.all(project.id)} == {
        row["annotator"] for row in table if row["persistent"]
    }
    assert biased <= {row["annotator"] for row in table if row["persistent"]}
    assert done.audit is not None
    assert done.summary is not None
    assert done.audit["construction"] == "flip"
    assert done.summary["data"]["answers"] == len(rows)
    assert done.seq == store.projects.get(project.id).seq
    assert len(done.data_hash or "") == 64
    first = table[0]
    assert first["longest_run"] > 1
    assert first["median_lead_time"] == pytest.approx(4.0, abs=1.1)
    assert len(store.rankings.all(run.id)) == 20
    path = store.runs.path(run.id)
    assert path is not None
    assert path["times"]


def test_run_from_statistics_equals_detect_on_the_exported_answers(store: Store, project: Project) -> None:
    rows, _ = crowd_rows()
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    run = store.runs.request(project.id, Trigger.MANUAL)
    Runs(store, "me").once()
    exported = Comparisons.from_arrays(
        [row.annotator_id for row in rows],
        [row.left_item for row in rows],
        [row.right_item for row in rows],
        [row.outcome for row in rows],
        task=[f"task {row.task_id}" for row in rows],
    )
    again = detect(exported)
    stored = store.findings.all(run.id)
    assert [row["annotator"] for row in stored if row["flagged"]] == again.flagged
    for column in ("lbi_share", "p_value", "q_value", "finding", "exact_list", "proven", "lbi_list", "difference"):
        assert {row["annotator"]: row[column] for row in stored} == dict(
            zip(again.annotators["annotator"], again.annotators[column], strict=True)
        ), column
    assert (store.runs.get(run.id).summary or {})["decided_by"] == "exact"


def test_scheduled_run_without_news_is_dropped_and_one_that_people_ask_for_is_not(
    store: Store, project: Project
) -> None:
    rows, _ = crowd_rows(n_answers=20)
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    runs = Runs(store, "me")
    store.runs.request(project.id, Trigger.MANUAL)
    runs.once()
    store.runs.request(project.id, Trigger.SCHEDULE)
    runs.once()
    assert store.runs.page(project.id).total == 1
    for number, trigger in enumerate((Trigger.MANUAL, Trigger.TRAINING), start=2):
        store.runs.request(project.id, trigger)
        runs.once()
        assert store.runs.page(project.id).total == number


def test_watch_requests_a_run_when_enough_answers_came(store: Store, project: Project, clock: FakeClock) -> None:
    rows, _ = crowd_rows(n_biased=0, n_answers=20)
    store.projects.set_config(project.id, ProjectConfig.model_validate({"every_answers": 100}))
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    clock.now += 10
    runs = Runs(store, "me")
    assert runs.once()
    newest = store.runs.latest(project.id)
    assert newest is not None
    assert newest.trigger == "schedule"
    clock.now += 3600 * 24
    labelled = Task(1, "a", "b", None, None, None, None, True, clock.now)
    store.comparisons.apply(project.id, Batch(tasks=[labelled]))  # moves the sequence number, not what is judged
    assert not runs.once()
    assert store.runs.page(project.id).total == 1


def test_run_that_cannot_be_judged_as_asked_fails_with_the_reason_and_a_problem(store: Store, project: Project) -> None:
    rows, _ = crowd_rows(n_annotators=6, n_answers=4)
    store.projects.set_config(
        project.id, ProjectConfig.model_validate({"decide_by": "lbi", "lbi": "construction=paper"})
    )
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    run = store.runs.request(project.id, Trigger.MANUAL)
    Runs(store, "me").once()
    failed = store.runs.get(run.id)
    assert failed.status == "failed"
    assert "more answers" in (failed.error or "")
    assert store.problems.find(project.id)[0].code == "run_failed"


def test_run_of_an_empty_project_says_so(store: Store, project: Project) -> None:
    run = store.runs.request(project.id, Trigger.MANUAL)
    Runs(store, "me").once()
    done = store.runs.get(run.id)
    assert done.status == "done"
    assert done.audit is not None
    assert done.audit["reasons"] == ["There are no answers to judge yet."]


def test_run_left_by_a_dead_worker_is_taken_over(
    store: Store, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = crowd_rows(n_answers=20)
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    run = store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("dead", -1.0)  # its lease has run out
    assert claimed is not None
    assert Runs(store, "me").once()
    assert store.runs.get(run.id).status == "done"


def test_a_run_tells_its_stages_and_how_many_answers_were_read(store: Store, project: Project) -> None:
    rows, _ = crowd_rows()
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    told: list[tuple[float, str]] = []

    def report(share: float, note: str) -> None:
        told.append((share, note))

    found = store.projects.get(project.id)
    current = StatisticsCache(store).catch_up(found, partial(tell_stage, report))
    assert told == [(0.9 * 0.15, f"reading the answers: {len(rows):,} of {len(rows):,}")]
    analyse(store, found, current, report)
    notes = [note.partition(":")[0] for _, note in told]
    assert [*dict.fromkeys(notes)] == [*STAGE_WORDS.values(), "putting the evidence together"]
    assert [share for share, _ in told[-8:]] == sorted(share for share, _ in told[-8:])


def test_live_evidence_counts_first_submissions_once_whatever_is_edited_or_deleted(
    store: Store, project: Project, clock: FakeClock
) -> None:
    rows, biased = crowd_rows()
    desk = LiveDesk(store)
    finish(store, project, audit={"how": "own coins"}, flags=[])
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    warned = desk.advance(store.projects.get(project.id), clock())
    assert biased <= set(warned)
    _, before = store.live.standing(project.id)
    store.comparisons.apply(
        project.id, Batch(comparisons=[replace(r, outcome=-r.outcome, updated_at=r.updated_at + 1e6) for r in rows])
    )
    store.comparisons.apply(project.id, Batch(deleted_annotations=[row.annotation_id for row in rows[:100]]))
    assert desk.advance(store.projects.get(project.id), clock()) == []
    _, after = store.live.standing(project.id)
    assert {k: v.log_e for k, v in after.items()} == {k: v.log_e for k, v in before.items()}
    assert store.projects.get(project.id).live_seq == store.projects.get(project.id).seq
    again = LiveDesk(store)  # a restart
    assert again.advance(store.projects.get(project.id), clock()) == []


@pytest.mark.parametrize("audit", [None, {"how": "none"}, {"how": "sides fixed"}, {}])
def test_early_warnings_need_an_audit_that_trusts_the_sides(
    store: Store, project: Project, clock: FakeClock, audit: dict[str, str] | None
) -> None:
    rows, biased = crowd_rows()
    if audit is not None:
        finish(store, project, audit=audit, flags=[])
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    assert LiveDesk(store).advance(store.projects.get(project.id), clock()) == []
    _, evidence = store.live.standing(project.id)
    assert biased <= set(evidence)
    assert all(row.warned_at is None for row in evidence.values())


def one_order(rows: Sequence[Comparison]) -> list[Comparison]:
    """The same answers on pairs of their own, the chosen item always on one side: nobody can be judged."""
    return [replace(r, left_item=f"a{r.task_id}", right_item=f"b{r.task_id}", coin=None) for r in rows]


def test_warning_asks_for_a_run_and_the_first_audit_gives_what_waited(store: Store, project: Project) -> None:
    rows, biased = crowd_rows()
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    runs = Runs(store, "me")
    assert runs.once()
    run = store.runs.latest(project.id)
    assert run is not None
    assert run.trigger == Trigger.WARNING
    assert biased <= set(store.live.warned(project.id))
    assert {row["annotator"] for row in store.findings.all(run.id) if row["warned"]} == set(
        store.live.warned(project.id)
    )


def test_project_that_can_no_longer_be_judged_withdraws_warnings_and_flags_with_a_note(
    store: Store, project: Project
) -> None:
    rows, biased = crowd_rows()
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    runs = Runs(store, "me")
    store.runs.request(project.id, Trigger.MANUAL)
    runs.once()
    assert biased <= set(store.live.warned(project.id))
    assert store.flags.all(project.id)
    later = [replace(row, updated_at=row.updated_at + 1e6) for row in one_order(rows)]
    store.comparisons.apply(project.id, Batch(comparisons=later, reads_anew=True))
    store.runs.request(project.id, Trigger.MANUAL)
    Runs(store, "me").once()
    run = store.runs.latest(project.id)
    assert run is not None
    assert (run.audit or {})["how"] == "none"
    assert store.live.warned(project.id) == {}
    assert store.flags.all(project.id) == []
    assert not any(row["warned"] or row["persistent"] for row in store.findings.all(run.id))
    (note,) = [problem for problem in store.problems.find(project.id) if problem.code == "warnings_withdrawn"]
    assert "withdrawn" in note.message
    assert f"evenhand connect {project.ls_project_id} --sides" in note.remedy


def test_lasting_flags_stay_while_spending_is_kept_from_run_to_run(store: Store, project: Project) -> None:
    rows, biased = crowd_rows()
    half = len(rows) // 2
    lasting = []
    for part in (rows[:half], rows[half:]):
        store.comparisons.apply(project.id, Batch(comparisons=part))
        store.runs.request(project.id, Trigger.MANUAL)
        assert Runs(store, "me").once()
        lasting.append({row["annotator_id"] for row in store.flags.all(project.id)})
    assert lasting[0] <= lasting[1]
    assert biased <= lasting[1]
    states = {key: Spending.from_dict(state) for key, state in store.spending.all(project.id).items()}
    assert {key for key, state in states.items() if state.is_lasting} == lasting[1]
    assert all(state.looks == 2 for state in states.values())
    answers = {row["annotator"]: row["comparisons"] for row in store.findings.all(2)}
    assert {key: state.answers for key, state in states.items()} == answers


def test_live_evidence_of_a_second_answer_under_the_same_coin_is_no_news(
    store: Store, project: Project, clock: FakeClock
) -> None:
    rows, _ = crowd_rows(n_annotators=3, n_biased=0, n_answers=5)
    twice = [replace(row, annotation_id=row.annotation_id + 1000) for row in rows]
    desk = LiveDesk(store)
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    desk.advance(store.projects.get(project.id), clock())
    _, before = store.live.standing(project.id)
    store.comparisons.apply(project.id, Batch(comparisons=twice))
    LiveDesk(store).advance(store.projects.get(project.id), clock())
    _, after = store.live.standing(project.id)
    assert {k: v.answers for k, v in after.items()} == {k: v.answers for k, v in before.items()}


def test_analyse_tells_the_audit_what_was_left_out(store: Store, project: Project) -> None:
    rows, _ = crowd_rows(n_answers=20)
    skipped = [replace(row, status="skip", outcome=None) for row in rows[:30]]
    store.comparisons.apply(project.id, Batch(comparisons=[*skipped, *rows[30:]]))
    cache = StatisticsCache(store)
    stored = store.projects.get(project.id)
    result = analyse(store, stored, cache.catch_up(stored), quiet)
    assert result.summary["data"]["excluded"] == {"skip": 30}
    assert result.audit["figures"]["skips"] == 30
    again = analyse(store, stored, cache.catch_up(stored), quiet)
    assert again.audit["figures"]["skips"] == 30


def test_evidence_in_time_of_known_answers() -> None:
    answers = [(1, None, 1.0), (2, 4.0, 0.0), (3, 2.0, 1.0), (4, 6.0, 1.0), (5, 6.0, -1.0)]
    known = {"first_seen": 1, "last_seen": 5, "median_lead_time": 5.0, "longest_run": 2}
    short = {"first_seen": 7, "last_seen": 7, "median_lead_time": None, "longest_run": 1}
    assert evidence_in_time({"a": answers, "b": [(7, None, -1.0)]}) == {"a": known, "b": short}
    assert evidence_in_time({}) == {}


def test_evidence_in_time_of_ground_truth_follows_what_the_project_counts(store: Store, project: Project) -> None:
    rows, _ = crowd_rows(n_answers=6)
    own = [row for row in rows if row.annotator_id == rows[0].annotator_id]
    late = replace(own[-1], ground_truth=True, created_at=2e9, lead_time=600.0)
    store.comparisons.apply(project.id, Batch(comparisons=[late if row is own[-1] else row for row in rows]))

    def last_seen() -> float:
        stored = store.projects.get(project.id)
        result = analyse(store, stored, StatisticsCache(store).catch_up(stored), quiet)
        return next(float(row["last_seen"]) for row in result.annotators if row["annotator"] == own[0].annotator_id)

    assert last_seen() == 2e9
    store.projects.set_config(project.id, ProjectConfig.model_validate({"count_ground_truth": False}))
    assert last_seen() == own[-2].created_at


def test_predictions_the_project_counts_are_not_told_as_left_out(store: Store, project: Project) -> None:
    rows, _ = crowd_rows()
    store.comparisons.apply(project.id, Batch(comparisons=[replace(rows[0], status="prediction"), *rows[1:]]))
    for counted, left_out in ((False, {"prediction": 1}), (True, {})):
        store.projects.set_config(project.id, ProjectConfig.model_validate({"count_predictions": counted}))
        stored = store.projects.get(project.id)
        result = analyse(store, stored, StatisticsCache(store).catch_up(stored), quiet)
        assert result.summary["data"]["excluded"] == left_out


def test_statistics_loaded_in_parts_equal_those_of_all_rows_at_once(
    store: Store, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = crowd_rows()
    rows = [replace(row, coin=f"coin {row.task_id}") if row.annotation_id % 3 else row for row in rows]
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    store.comparisons.apply(project.id, Batch(deleted_annotations=[3, 40]))
    monkeypatch.setattr("evenhand.store.comparisons.LARGE_CHUNK", 97)
    loaded = StatisticsCache(store).catch_up(store.projects.get(project.id))
    expected = judged_answers(store, project.id).statistics("task")
    assert loaded.seq == store.projects.get(project.id).seq
    assert loaded.statistics == expected
    assert loaded.statistics.annotators.tolist() == expected.annotators.tolist()
    assert loaded.statistics.items.tolist() == expected.items.tolist()
    assert np.array_equal(loaded.statistics.answers().coin, expected.answers().coin)


def test_answer_times_are_given_by_annotator_in_order_of_time(store: Store, project: Project) -> None:
    rows, _ = crowd_rows(n_answers=6)
    backwards = [replace(row, created_at=2e9 - row.annotation_id, lead_time=float(row.annotation_id)) for row in rows]
    store.comparisons.apply(
        project.id, Batch(comparisons=[*backwards[:-1], replace(backwards[-1], status="skip", outcome=None)])
    )
    wanted = sorted({row.annotator_id for row in rows})[:5]
    found = dict(store.comparisons.times(project.id, wanted))
    assert sorted(found) == wanted
    for annotator, answers in found.items():
        own = [row for row in backwards[:-1] if row.annotator_id == annotator]
        assert answers == [(row.created_at, row.lead_time, row.outcome) for row in reversed(own)]


def test_live_evidence_of_two_workers_in_turn_counts_each_coin_once(store: Store, project: Project) -> None:
    """What one worker counted, the other must know: a second answer under the same coin is no new evidence."""
    rows, _ = crowd_rows(n_answers=10)
    first, second = LiveDesk(store), LiveDesk(store)
    again = [replace(row, annotation_id=row.annotation_id + 10_000) for row in rows]
    for desk, part in ((first, rows[:50]), (second, rows[50:]), (first, again), (second, again[:0])):
        if part:
            store.comparisons.apply(project.id, Batch(comparisons=part))
        desk.advance(store.projects.get(project.id), 0.0)
    _, evidence = store.live.standing(project.id)
    assert sum(row.answers for row in evidence.values()) == len(rows)


def test_live_evidence_after_a_lost_race_counts_what_the_winner_left(
    store: Store, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = crowd_rows(n_answers=10)
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    loser, winner = LiveDesk(store), LiveDesk(store)
    put, stale = store.live.put, store.projects.get(project.id)

    def overtaken(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(store.live, "put", put)
        seq, _ = store.live.standing(project.id)
        part = store.comparisons.changes_since(project.id, seq, limit=40)
        store.live.put(project.id, [], from_seq=seq, to_seq=part[-1].seq)
        return put(*arguments, **options)

    monkeypatch.setattr(store.live, "put", overtaken)
    with pytest.raises(ConflictError):
        loser.advance(stale, 0.0)
    loser.advance(store.projects.get(project.id), 0.0)
    winner.advance(store.projects.get(project.id), 0.0)
    _, evidence = store.live.standing(project.id)
    assert sum(row.answers for row in evidence.values()) == len(rows) - 40


def test_worker_with_nothing_to_do_asks_once_for_all_projects(
    store: Store, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = crowd_rows(n_answers=20)
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    store.runs.request(project.id, Trigger.MANUAL)
    runs = Runs(store, "me")
    assert runs.once()
    runs.once()
    looks = []
    latest = store.runs.latest

    def noted(*arguments: Any, **options: Any) -> Run | None:
        looks.append(arguments)
        return latest(*arguments, **options)

    monkeypatch.setattr(store.runs, "latest", noted)
    runs.once()
    assert looks == []
    store.comparisons.apply(project.id, Batch(comparisons=[replace(rows[0], annotation_id=9_999)]))
    runs.once()
    assert looks


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have their own ways")
@pytest.mark.slow
def test_worker_gives_large_arrays_back_to_the_system() -> None:
    script = """
import numpy as np, psutil
from evenhand.server.worker import give_large_blocks_back

give_large_blocks_back()
before = psutil.Process().memory_info().rss
for _ in range(3):
    arrays = [np.ones(2_000_000) for _ in range(10)]
    small = [bytearray(1000) for _ in range(1000)]
    del arrays
print((psutil.Process().memory_info().rss - before) / 2**20)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(ended.stdout) < 50.0  # 155 MB where malloc keeps room for them
