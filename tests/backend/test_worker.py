"""Runs from stored answers: statistics, live evidence, the queue, failures, takeover."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from backend.analyse import analyse, data_hash, evidence_in_time
from backend.config import ProjectConfig
from backend.domain import Batch, Comparison, Task
from backend.errors import ConflictError
from backend.live_evidence import LiveDesk
from backend.statistics_cache import StatisticsCache, rebuild
from backend.worker import Runs
from fdr_core import Comparisons, detect
from fdr_core.simulate import small_team


def crowd_rows(n_annotators=14, n_biased=2, n_answers=60, seed=3, start=1_700_000_000.0):
    """Answers of a simulated team as stored comparisons, each under a task of its own."""
    simulated = small_team(n_annotators, n_biased, n_answers, rng=np.random.default_rng(seed), bias=0.8)
    c = simulated.comparisons
    mixed = np.random.default_rng(seed).permutation(len(c))
    rows = [
        Comparison(
            annotation_id=k + 1,
            task_id=int(i) + 1,
            annotator_id=str(c.annotators[c.annotator[i]]),
            left_item=f"item {c.items[c.left[i]]}",
            right_item=f"item {c.items[c.right[i]]}",
            coin=None,
            stratum=None,
            outcome=float(c.outcome[i]),
            status="answer",
            reason=None,
            ground_truth=False,
            lead_time=2.0 + k % 5,
            created_at=start + k,
            updated_at=start + k,
        )
        for k, i in enumerate(mixed)
    ]
    biased = {str(label) for label, is_biased in zip(c.annotators, simulated.is_biased, strict=True) if is_biased}
    return rows, biased


def quiet(share, note):
    """Take progress and say nothing."""


def test_catch_up_after_edits_and_deletions_equals_a_rebuild(store, project):
    rows, _ = crowd_rows()
    cache = StatisticsCache(store)
    store.apply(project.id, Batch(comparisons=rows[:300]))
    cache.catch_up(store.get_project(project.id))
    edited = [replace(row, outcome=-row.outcome, updated_at=row.updated_at + 9) for row in rows[:40]]
    store.apply(project.id, Batch(comparisons=[*edited, *rows[300:]]))
    store.apply(project.id, Batch(deleted_annotations=[row.annotation_id for row in rows[50:90]]))
    current = cache.catch_up(store.get_project(project.id))
    fresh = rebuild(store.load_answers(project.id), "task")
    assert current.seq == store.get_project(project.id).seq
    assert current.statistics == fresh
    assert len(fresh) == len(rows) - 40
    assert data_hash(current.statistics) == data_hash(fresh)
    assert np.allclose(np.sort(current.statistics.sums.Ay), np.sort(fresh.sums.Ay))


def test_run_finds_the_biased_and_stores_everything(store, project):
    rows, biased = crowd_rows()
    store.apply(project.id, Batch(comparisons=rows))
    run = store.request_run(project.id, "manual", "tester")
    assert Runs(store, "me").once()
    done = store.get_run(run.id)
    assert done.status == "done", done.error
    table = store.all_annotators(run.id)
    flagged = {row["annotator"] for row in table if row["flagged"]}
    assert biased <= flagged
    assert len(flagged) <= len(biased) + 1
    assert {row["annotator_id"] for row in store.list_flags(project.id)} == {
        row["annotator"] for row in table if row["persistent"]
    }
    assert biased <= {row["annotator"] for row in table if row["persistent"]}
    assert done.audit["construction"] == "flip"
    assert done.summary["data"]["answers"] == len(rows)
    assert done.seq == store.get_project(project.id).seq
    assert len(done.data_hash) == 64
    first = table[0]
    assert first["longest_run"] > 1
    assert first["median_lead_time"] == pytest.approx(4.0, abs=1.1)
    assert len(store.all_items(run.id)) == 20
    assert store.run_path(run.id)["times"]


def test_run_from_statistics_equals_detect_on_the_exported_answers(store, project):
    rows, _ = crowd_rows()
    store.apply(project.id, Batch(comparisons=rows))
    run = store.request_run(project.id, "manual")
    Runs(store, "me").once()
    exported = Comparisons.from_arrays(
        [row.annotator_id for row in rows],
        [row.left_item for row in rows],
        [row.right_item for row in rows],
        [row.outcome for row in rows],
        task=[f"task {row.task_id}" for row in rows],
    )
    again = detect(exported)
    stored = store.all_annotators(run.id)
    assert [row["annotator"] for row in stored if row["flagged"]] == again.flagged
    assert {row["annotator"]: row["draw_share"] for row in stored} == dict(
        zip(again.annotators["annotator"], again.annotators["draw_share"], strict=True)
    )


def test_scheduled_run_without_news_is_dropped_and_a_manual_one_is_not(store, project):
    rows, _ = crowd_rows(n_answers=20)
    store.apply(project.id, Batch(comparisons=rows))
    runs = Runs(store, "me")
    store.request_run(project.id, "manual")
    runs.once()
    store.request_run(project.id, "START_TRAINING")
    runs.once()
    assert store.list_runs(project.id).total == 1
    store.request_run(project.id, "manual")
    runs.once()
    assert store.list_runs(project.id).total == 2


def test_watch_requests_a_run_when_enough_answers_came(store, project, clock):
    rows, _ = crowd_rows(n_answers=20)
    store.set_config(project.id, ProjectConfig(every_answers=100))
    store.apply(project.id, Batch(comparisons=rows))
    clock.now += 10
    runs = Runs(store, "me")
    assert runs.once()
    newest = store.latest_run(project.id)
    assert newest.trigger == "schedule"
    clock.now += 3600 * 24
    labelled = Task(1, "a", "b", None, None, None, None, True, clock.now)
    store.apply(project.id, Batch(tasks=[labelled]))  # moves the sequence number, not what is judged
    assert not runs.once()
    assert store.list_runs(project.id).total == 1


def test_run_that_cannot_be_judged_as_asked_fails_with_the_reason_and_a_problem(store, project):
    rows, _ = crowd_rows(n_annotators=6, n_answers=4)
    store.set_config(project.id, ProjectConfig(method="paper"))
    store.apply(project.id, Batch(comparisons=rows))
    run = store.request_run(project.id, "manual")
    Runs(store, "me").once()
    failed = store.get_run(run.id)
    assert failed.status == "failed"
    assert "more answers" in failed.error
    assert store.list_problems(project.id)[0].code == "run_failed"


def test_run_of_an_empty_project_says_so(store, project):
    run = store.request_run(project.id, "manual")
    Runs(store, "me").once()
    done = store.get_run(run.id)
    assert done.status == "done"
    assert done.audit["reasons"] == ["There are no answers to judge yet."]


def test_run_left_by_a_dead_worker_is_taken_over(store, project, monkeypatch):
    rows, _ = crowd_rows(n_answers=20)
    store.apply(project.id, Batch(comparisons=rows))
    run = store.request_run(project.id, "manual")
    claimed = store.claim_run("dead", 0.05)
    assert claimed is not None
    threading.Event().wait(0.2)
    assert Runs(store, "me").once()
    assert store.get_run(run.id).status == "done"


def test_live_evidence_counts_first_submissions_once_whatever_is_edited_or_deleted(store, project, clock):
    rows, biased = crowd_rows()
    desk = LiveDesk(store)
    store.apply(project.id, Batch(comparisons=rows))
    warned = desk.advance(store.get_project(project.id), clock())
    assert biased <= set(warned)
    _, before = store.get_live(project.id)
    store.apply(
        project.id, Batch(comparisons=[replace(r, outcome=-r.outcome, updated_at=r.updated_at + 1e6) for r in rows])
    )
    store.apply(project.id, Batch(deleted_annotations=[row.annotation_id for row in rows[:100]]))
    assert desk.advance(store.get_project(project.id), clock()) == []
    _, after = store.get_live(project.id)
    assert {k: v.log_e for k, v in after.items()} == {k: v.log_e for k, v in before.items()}
    assert store.get_project(project.id).live_seq == store.get_project(project.id).seq
    again = LiveDesk(store)  # a restart
    assert again.advance(store.get_project(project.id), clock()) == []


def test_live_evidence_of_a_second_answer_under_the_same_coin_is_no_news(store, project, clock):
    rows, _ = crowd_rows(n_annotators=3, n_biased=0, n_answers=5)
    twice = [replace(row, annotation_id=row.annotation_id + 1000) for row in rows]
    desk = LiveDesk(store)
    store.apply(project.id, Batch(comparisons=rows))
    desk.advance(store.get_project(project.id), clock())
    _, before = store.get_live(project.id)
    store.apply(project.id, Batch(comparisons=twice))
    LiveDesk(store).advance(store.get_project(project.id), clock())
    _, after = store.get_live(project.id)
    assert {k: v.answers for k, v in after.items()} == {k: v.answers for k, v in before.items()}


def test_analyse_tells_the_audit_what_was_left_out(store, project):
    rows, _ = crowd_rows(n_answers=20)
    skipped = [replace(row, status="skip", outcome=None) for row in rows[:30]]
    store.apply(project.id, Batch(comparisons=[*skipped, *rows[30:]]))
    cache = StatisticsCache(store)
    stored = store.get_project(project.id)
    result = analyse(store, stored, cache.catch_up(stored), quiet)
    assert result.summary["data"]["excluded"] == {"skip": 30}
    assert result.audit["figures"]["skips"] == 30
    again = analyse(store, stored, cache.catch_up(stored), quiet)
    assert again.audit["figures"]["skips"] == 30


def test_evidence_in_time_of_known_answers():
    answers = [(1, None, 1.0), (2, 4.0, 0.0), (3, 2.0, 1.0), (4, 6.0, 1.0), (5, 6.0, -1.0)]
    assert evidence_in_time(answers) == {"first_seen": 1, "last_seen": 5, "median_lead_time": 5.0, "longest_run": 2}
    assert evidence_in_time([]) == {}


def test_statistics_loaded_in_parts_equal_those_of_all_rows_at_once(store, project, monkeypatch):
    rows, _ = crowd_rows()
    rows = [replace(row, coin=f"coin {row.task_id}") if row.annotation_id % 3 else row for row in rows]
    store.apply(project.id, Batch(comparisons=rows))
    store.apply(project.id, Batch(deleted_annotations=[3, 40]))
    monkeypatch.setattr("backend.store.comparisons.LARGE_CHUNK", 97)
    loaded = StatisticsCache(store).catch_up(store.get_project(project.id))
    expected = rebuild(store.load_answers(project.id), "task")
    assert loaded.seq == store.get_project(project.id).seq
    assert loaded.statistics == expected
    assert loaded.statistics.annotators.tolist() == expected.annotators.tolist()
    assert loaded.statistics.items.tolist() == expected.items.tolist()
    assert np.array_equal(loaded.statistics.answers().coin, expected.answers().coin)


def test_answer_times_are_given_by_annotator_in_order_of_time(store, project):
    rows, _ = crowd_rows(n_answers=6)
    backwards = [replace(row, created_at=2e9 - row.annotation_id, lead_time=float(row.annotation_id)) for row in rows]
    store.apply(project.id, Batch(comparisons=[*backwards[:-1], replace(backwards[-1], status="skip", outcome=None)]))
    wanted = sorted({row.annotator_id for row in rows})[:5]
    found = dict(store.answer_times(project.id, wanted))
    assert sorted(found) == wanted
    for annotator, answers in found.items():
        own = [row for row in backwards[:-1] if row.annotator_id == annotator]
        assert answers == [(row.created_at, row.lead_time, row.outcome) for row in reversed(own)]


def test_live_evidence_of_two_workers_in_turn_counts_each_coin_once(store, project):
    """What one worker counted, the other must know: a second answer under the same coin is no new evidence."""
    rows, _ = crowd_rows(n_answers=10)
    first, second = LiveDesk(store), LiveDesk(store)
    again = [replace(row, annotation_id=row.annotation_id + 10_000) for row in rows]
    for desk, part in ((first, rows[:50]), (second, rows[50:]), (first, again), (second, again[:0])):
        if part:
            store.apply(project.id, Batch(comparisons=part))
        desk.advance(store.get_project(project.id), 0.0)
    _, evidence = store.get_live(project.id)
    assert sum(row.answers for row in evidence.values()) == len(rows)


def test_live_evidence_after_a_lost_race_counts_what_the_winner_left(store, project):
    rows, _ = crowd_rows(n_answers=10)
    store.apply(project.id, Batch(comparisons=rows))
    loser, winner = LiveDesk(store), LiveDesk(store)
    put, stale = store.put_live, store.get_project(project.id)

    def overtaken(*arguments, **options):
        store.put_live = put
        seq, _ = store.get_live(project.id)
        part = store.changes_since(project.id, seq, limit=40)
        store.put_live(project.id, [], from_seq=seq, to_seq=part[-1].seq)
        return put(*arguments, **options)

    store.put_live = overtaken
    with pytest.raises(ConflictError):
        loser.advance(stale, 0.0)
    loser.advance(store.get_project(project.id), 0.0)
    winner.advance(store.get_project(project.id), 0.0)
    _, evidence = store.get_live(project.id)
    assert sum(row.answers for row in evidence.values()) == len(rows) - 40


def test_worker_with_nothing_to_do_asks_once_for_all_projects(store, project, monkeypatch):
    rows, _ = crowd_rows(n_answers=20)
    store.apply(project.id, Batch(comparisons=rows))
    store.request_run(project.id, "manual")
    runs = Runs(store, "me")
    assert runs.once()
    runs.once()
    looks = []
    latest = store.latest_run
    monkeypatch.setattr(store, "latest_run", lambda *a, **k: looks.append(a) or latest(*a, **k))
    runs.once()
    assert looks == []
    store.apply(project.id, Batch(comparisons=[replace(rows[0], annotation_id=9_999)]))
    runs.once()
    assert looks
