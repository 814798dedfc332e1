"""Runs, leases, live evidence, decisions and bookkeeping: one contract on SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from evenhand.domain import Batch, Project, ProjectRef, Publication, Review, RunResult, StoredEvidence, Trigger
from evenhand.errors import ConflictError, LeaseLostError, NotFoundError, PayloadError, StoreBusyError, StoreError
from evenhand.store import Store
from evenhand.store.engine import WRITE, migrate, open_engine
from evenhand.store.runs import MAX_ATTEMPTS
from evenhand.store.schema import metadata
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from harness.judged import judged_answers
from tests.backend.conftest import FakeClock
from tests.backend.test_store_comparisons import BASE


def annotator_row(name: str, **values: Any) -> dict[str, Any]:
    row = {"annotator": name, "comparisons": 40, "left": 30, "right": 9, "ties": 1, "bias": 0.5, "flagged": False}
    return {**row, "finding": "no lean seen", "p_value": float("nan"), **values}


def result(**values: Any) -> RunResult:
    base: dict[str, Any] = {
        "seq": 7,
        "seed": 3,
        "config": {"q": 0.1},
        "versions": {"evenhand": "0"},
        "audit": {"construction": "flip", "figures": {"z": float("inf")}},
        "guarantee": "fdr: at most 10 %",
        "summary": {"flagged": 1},
        "timings": {"detect": 0.5},
        "data_hash": "abc",
        "annotators": [annotator_row("2", flagged=True, finding="left side only"), annotator_row("1")],
        "items": [{"item": "a", "score": 0.5, "rank": 1.0}, {"item": "b", "score": -0.5, "rank": 2.0}],
        "order_changes": [{"above": "a", "below": "b", "raw_difference": -0.1, "difference": 1.0}],
        "path": {"times": [1.0, float("nan")]},
        "flags": [{"annotator_id": "2", "finding": "left side only", "evidence": {"bias": 0.5}}],
    }
    return RunResult(**{**base, **values})


def finish(store: Store, project: Project, **values: Any) -> int:
    store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("w", 30)
    assert claimed is not None
    return store.runs.finish(claimed[0].id, claimed[1], result(**values)).id


def test_migrations_end_in_the_declared_schema(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_migrations_several_processes_at_once_run_once(empty_database_url: str) -> None:
    errors: list[BaseException] = []

    def start() -> None:
        engine = open_engine(empty_database_url)
        try:
            migrate(engine)
        except BaseException as error:
            errors.append(error)
        finally:
            engine.dispose()

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_run_requested_twice_while_waiting_is_one_run(store: Store, project: Project) -> None:
    first = store.runs.request(project.id, Trigger.MANUAL, "ana")
    assert store.runs.request(project.id, Trigger.TRAINING).id == first.id
    assert store.runs.page(project.id).total == 1


def test_run_of_unknown_project_is_refused(store: Store) -> None:
    with pytest.raises(NotFoundError, match="999"):
        store.runs.request(999, Trigger.MANUAL)


def test_run_claimed_is_not_given_to_a_second_worker(store: Store, project: Project) -> None:
    store.runs.request(project.id, Trigger.MANUAL)
    assert store.runs.claim("one", 30) is not None
    store.runs.request(project.id, Trigger.SCHEDULE)
    assert store.runs.claim("two", 30) is None


def test_run_claimed_by_many_threads_is_given_once(store: Store, project: Project) -> None:
    store.runs.request(project.id, Trigger.MANUAL)
    given: list[Any] = []
    threads = [threading.Thread(target=lambda n=n: given.append(store.runs.claim(f"w{n}", 30))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(claim is not None for claim in given) == 1


def test_run_of_a_dead_worker_is_taken_over_and_its_late_result_refused(store: Store, project: Project) -> None:
    store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("dead", 0.0)
    assert claimed is not None
    run, lease = claimed
    taken = store.runs.claim("alive", 30)
    assert taken is not None
    assert taken[0].id == run.id
    assert taken[1].token > lease.token
    with pytest.raises(LeaseLostError):
        store.runs.finish(run.id, lease, result())
    with pytest.raises(LeaseLostError):
        store.runs.progress(run.id, lease, 0.5)
    assert store.runs.finish(run.id, taken[1], result()).status == "done"


def test_run_whose_workers_always_die_fails_in_the_end(store: Store, project: Project) -> None:
    run = store.runs.request(project.id, Trigger.MANUAL)
    for _ in range(MAX_ATTEMPTS):
        assert store.runs.claim("dead", 0.0) is not None
    assert store.runs.claim("dead", 0.0) is None
    failed = store.runs.get(run.id)
    assert failed.status == "failed"
    assert "attempts" in (failed.error or "")


def test_run_sign_of_life_after_the_end_leaves_the_lease_free(store: Store, project: Project) -> None:
    store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("w", 30)
    assert claimed is not None
    run, lease = claimed
    store.runs.finish(run.id, lease, result())
    with pytest.raises(LeaseLostError):
        store.runs.progress(run.id, lease, 0.9)
    store.runs.request(project.id, Trigger.MANUAL)
    assert store.runs.claim("another", 30) is not None


def test_run_finished_is_stored_whole(store: Store, project: Project) -> None:
    run_id = finish(store, project)
    run = store.runs.get(run_id)
    assert (run.status, run.model_version, run.progress) == ("done", f"evenhand-{run_id}", 1.0)
    assert run.audit == {"construction": "flip", "figures": {"z": None}}
    assert [row["annotator"] for row in store.findings.all(run_id)] == ["2", "1"]
    assert store.findings.all(run_id)[0]["p_value"] is None
    assert [row["item"] for row in store.rankings.all(run_id)] == ["a", "b"]
    assert store.rankings.order_changes(run_id)[0]["above"] == "a"
    assert store.runs.path(run_id) == {"times": [1.0, None]}
    assert store.rankings.scores(run_id, ["a", "zzz"]) == {"a": 0.5}
    assert [flag["annotator_id"] for flag in store.flags.all(project.id)] == ["2"]
    latest = store.runs.latest(project.id)
    assert latest is not None
    assert latest.id == run_id
    assert store.runs.claim("w", 30) is None


def test_flags_that_stay_keep_the_time_they_were_raised(store: Store, project: Project, clock: FakeClock) -> None:
    finish(store, project)
    raised = clock.now
    clock.now += 100
    flag = {"annotator_id": "2", "finding": "left side only", "evidence": {}}
    finish(store, project, flags=[flag, {**flag, "annotator_id": "3"}])
    assert {row["annotator_id"]: row["since"] for row in store.flags.all(project.id)} == {"2": raised, "3": clock.now}
    finish(store, project, flags=None)
    assert len(store.flags.all(project.id)) == 2
    finish(store, project, flags=[])
    assert store.flags.all(project.id) == []


def test_run_failed_or_dropped_frees_the_project(store: Store, project: Project) -> None:
    store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("w", 30)
    assert claimed is not None
    store.runs.fail(claimed[0].id, claimed[1], "no answers")
    assert store.runs.get(claimed[0].id).error == "no answers"
    store.runs.request(project.id, Trigger.MANUAL)
    claimed = store.runs.claim("v", 30)
    assert claimed is not None
    store.runs.drop(claimed[0].id, claimed[1])
    with pytest.raises(NotFoundError):
        store.runs.get(claimed[0].id)


def test_queue_age_counts_from_the_oldest_waiting_run(store: Store, project: Project, clock: FakeClock) -> None:
    assert store.runs.queue_age() == 0.0
    store.runs.request(project.id, Trigger.MANUAL)
    clock.now += 12
    assert store.runs.queue_age() == 12.0


@pytest.mark.parametrize("descending", [False, True])
def test_annotators_paged_by_cursor_are_each_seen_once_nulls_last(
    store: Store, project: Project, descending: bool
) -> None:
    rows = [annotator_row(str(n), bias=None if n % 4 == 0 else (n % 3) / 10, p_value=0.5) for n in range(23)]
    run_id = finish(store, project, annotators=rows)
    seen: list[Any] = []
    cursor = None
    while True:
        page = store.findings.page(run_id, sort="bias", descending=descending, limit=5, cursor=cursor)
        assert page.total == 23
        seen += page.rows
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(int(row["annotator"]) for row in seen) == list(range(23))
    biases = [row["bias"] for row in seen]
    known = [bias for bias in biases if bias is not None]
    assert biases[len(known) :] == [None] * (23 - len(known))
    assert known == sorted(known, reverse=descending)


def test_annotators_filtered_and_searched_by_the_database(store: Store, project: Project) -> None:
    store.comparisons.apply(project.id, Batch(comparisons=[BASE]))
    store.annotators.name(project.id, {"7": ("Ana 100%", "ana@example.com")})
    run_id = finish(store, project, annotators=[annotator_row("7", flagged=True), annotator_row("8")])
    assert [row["annotator"] for row in store.findings.page(run_id, flagged=True).rows] == ["7"]
    first = store.findings.page(run_id, sort="flagged", descending=True, limit=1)
    second = store.findings.page(run_id, sort="flagged", descending=True, limit=1, cursor=first.cursor)
    assert [row["annotator"] for row in (*first.rows, *second.rows)] == ["7", "8"]
    assert [row["name"] for row in store.findings.page(run_id, search="0%").rows] == ["Ana 100%"]
    assert store.findings.page(run_id, search="%").total == 1
    assert store.findings.page(run_id, offset=1, sort="annotator").rows[0]["annotator"] == "8"


@pytest.mark.parametrize("cursor", ["xx", "W10", "bm9uZQ", "eyJhIjoxfQ", "\u00e9"])
def test_annotators_with_a_foreign_cursor_are_refused(store: Store, project: Project, cursor: str) -> None:
    run_id = finish(store, project)
    with pytest.raises(PayloadError, match="cursor"):
        store.findings.page(run_id, cursor=cursor)


def test_annotators_sorted_by_an_unknown_column_are_refused(store: Store, project: Project) -> None:
    with pytest.raises(PayloadError, match="position"):
        store.findings.page(finish(store, project), sort="bias; DROP TABLE runs")


@pytest.mark.slow
def test_annotators_page_of_ten_thousand_is_sorted_and_short(store: Store, project: Project) -> None:
    """How long it takes is measured by `benchmarks.pages`."""
    run_id = finish(store, project, annotators=[annotator_row(f"{n:05d}", bias=n / 1e4) for n in range(10_000)])
    page = store.findings.page(run_id, sort="bias", descending=True, limit=50)
    assert [row["annotator"] for row in page.rows] == [f"{n:05d}" for n in range(9_999, 9_949, -1)]


def test_lease_is_exclusive_renewable_and_its_token_grows(store: Store) -> None:
    lease = store.leases.acquire("pull:1", "one", 30)
    assert lease is not None
    assert store.leases.acquire("pull:1", "two", 30) is None
    assert store.leases.renew(lease, 60).expires_at > lease.expires_at
    store.leases.release(lease)
    other = store.leases.acquire("pull:1", "two", 30)
    assert other is not None
    assert other.token > lease.token
    with pytest.raises(LeaseLostError):
        store.leases.renew(lease, 30)


def test_lease_follows_the_database_clock_not_ours(store: Store, clock: FakeClock) -> None:
    assert store.leases.acquire("x", "one", 30) is not None
    clock.now += 1e6
    assert store.leases.acquire("x", "two", 30) is None


def test_live_evidence_advances_with_its_sequence_number_only(store: Store, project: Project) -> None:
    row = StoredEvidence("7", {"grid": [0.1]}, 0.5, 0.6, 3, None)
    store.live.put(project.id, [row], from_seq=0, to_seq=9)
    assert store.live.get(project.id, ["7", "8"]) == {"7": row}
    with pytest.raises(ConflictError):
        store.live.put(project.id, [StoredEvidence("7", {}, 9.0, 9.0, 9, None)], from_seq=0, to_seq=12)
    seq, standing = store.live.standing(project.id)
    assert (seq, standing["7"].sup_log_e) == (9, 0.6)
    assert store.live.get(project.id, ["7"]) == {"7": row}


def test_decisions_form_a_chain_and_the_last_to_arrive_counts(store: Store, project: Project) -> None:
    store.decisions.add(project.id, "7", "confirm", author="ana", comment="seen", decided_at=200.0)
    review = Review(project.id, "7", "dismiss", "", "Label Studio user 3", "label-studio:5:1:100.0", 100.0)
    first, is_new = store.decisions.add_review(review)
    assert is_new
    assert store.decisions.add_review(review) == (first, False)
    assert store.decisions.page(project.id).total == 2
    assert store.decisions.current(project.id)["7"].decision == "dismiss"  # whatever time others claim
    assert store.decisions.verify(project.id).intact


@pytest.mark.parametrize("statement", ["UPDATE decisions SET comment = 'x'", "DELETE FROM decisions"])
def test_decisions_cannot_be_rewritten(store: Store, project: Project, statement: str) -> None:
    store.decisions.add(project.id, "7", "confirm", author="ana")
    with pytest.raises(DBAPIError, match="append-only"), store.engine.begin() as connection:
        connection.execute(text(statement))


def test_decisions_changed_behind_the_trigger_are_found(sqlite_store: Store) -> None:
    project = sqlite_store.projects.register("http://ls", ProjectRef(1, 1))
    for name in ("a", "b", "c"):
        sqlite_store.decisions.add(project.id, name, "confirm", author="ana")
    with sqlite_store.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER decisions_refuse_update"))
        connection.execute(text("UPDATE decisions SET decision = 'dismiss' WHERE number = 2"))
    check = sqlite_store.decisions.verify(project.id)
    assert (check.intact, check.broken_at) == (False, 2)


def test_decisions_added_by_many_threads_do_not_fork_the_chain(store: Store, project: Project) -> None:
    def add(name: str) -> None:
        store.decisions.add(project.id, name, "watch", author=name)

    threads = [threading.Thread(target=add, args=(str(n),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.decisions.verify(project.id).intact
    assert store.decisions.page(project.id).total == 6


def test_projects_of_a_reinstalled_label_studio_do_not_mix(store: Store) -> None:
    old = store.projects.register("http://ls", ProjectRef(1, 100))
    new = store.projects.register("http://ls", ProjectRef(1, 200))
    assert old.id != new.id
    assert store.projects.register("http://ls", ProjectRef(1, 100)).id == old.id
    found = store.projects.find("http://ls", ProjectRef(1, None))
    assert found is not None
    assert found.id == new.id
    assert store.projects.find("http://other", ProjectRef(1, 100)) is None


def test_a_project_has_label_studios_id_and_a_prefix_where_that_is_taken(store: Store) -> None:
    refs = (("http://ls", 7, 100), ("http://ls", 7, 200), ("http://other", 7, 100), ("http://ls", 12, 100))
    numbers = [store.projects.register(url, ProjectRef(number, epoch)).id for url, number, epoch in refs]
    assert numbers == [7, 1_000_007, 2_000_007, 12]
    assert store.projects.register("demo", ProjectRef(1, 1), kind="demo").id == 1_000_001


def test_project_heard_of_in_an_event_is_adopted_by_setup(store: Store) -> None:
    first = store.projects.register("", ProjectRef(1, 100))
    assert store.projects.register("http://ls", ProjectRef(1, 100)).id == first.id
    assert store.projects.get(first.id).ls_url == "http://ls"


def test_project_description_older_than_the_known_one_is_ignored(store: Store, project: Project) -> None:
    store.projects.describe(project.id, title="new", ls_updated_at=200.0)
    assert store.projects.describe(project.id, title="old", ls_updated_at=100.0).title == "new"


def test_problem_raised_again_is_counted_once_a_second_and_can_be_resolved(
    store: Store, project: Project, clock: FakeClock
) -> None:
    for project_id, later in ((None, 0.0), (project.id, 0.0), (project.id, 0.5), (project.id, 1.5), (project.id, -9.0)):
        clock.now += later
        store.problems.open(project_id, "token", "expired", "make a new one")
    assert [problem.count for problem in store.problems.find(project.id)] == [3]
    store.problems.open(project.id, "token", "taken away", "make a new one")
    assert [(problem.count, problem.message) for problem in store.problems.find(project.id)] == [(4, "taken away")]
    assert store.problems.resolve(project.id, "token")
    assert not store.problems.resolve(project.id, "token")
    assert [problem.project_id for problem in store.problems.find()] == [None]


def test_publications_and_notifications_are_remembered_once(store: Store, project: Project, clock: FakeClock) -> None:
    sent = Publication(project.id, "tab", "review", "hash", "12", "done", 1, None, None, clock.now)
    store.publications.put(sent)
    assert store.publications.get(project.id) == {("tab", "review"): sent}
    assert store.publications.states() == {"done": 1}
    store.publications.delete(project.id, "tab", "review")
    assert store.publications.get(project.id) == {}
    assert store.notifications.add("flag:7", {"text": "x"}, project_id=project.id)
    assert not store.notifications.add("flag:7", {"text": "x"}, project_id=project.id)
    store.notifications.settle("flag:7", error="500", next_try_at=clock.now + 60)
    assert store.notifications.due() == []
    clock.now += 61
    assert [row["key"] for row in store.notifications.due()] == ["flag:7"]
    store.notifications.settle("flag:7")
    assert store.notifications.due() == []


def test_login_failures_delay_grows_and_success_forgets(store: Store, clock: FakeClock) -> None:
    for _ in range(5):
        store.logins.record("k", succeeded=False)
    assert store.logins.delay("k") == 0.0
    store.logins.record("k", succeeded=False)
    store.logins.record("k", succeeded=False)
    assert store.logins.delay("k") == 2.0
    clock.now += 3
    store.logins.record("k", succeeded=True)
    store.logins.record("k", succeeded=False)
    assert store.logins.delay("k") == 0.0


def test_shared_secret_is_made_once(store: Store) -> None:
    assert store.secrets.get("session") == store.secrets.get("session")
    assert store.secrets.get("session") != store.secrets.get("other")


def test_store_locked_by_another_process_says_busy(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'x.db'}", patience=0.01)
    migrate(engine)
    other = open_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with other.connect().execution_options(**{WRITE: True}) as connection, connection.begin():
        busy = Store(engine)
        with pytest.raises(StoreBusyError, match="locked"):
            busy.events.count("x", "y")
    engine.dispose()
    other.dispose()


def test_store_whose_server_is_gone_says_unavailable() -> None:
    engine = open_engine("postgresql+psycopg://nobody@127.0.0.1:9/none")
    with pytest.raises(StoreError, match="DATABASE_URL"):
        Store(engine).projects.all()
    engine.dispose()


def test_store_full_disk_says_unavailable_and_keeps_what_was_there(sqlite_store: Store) -> None:
    project = sqlite_store.projects.register("http://ls", ProjectRef(1, 1))
    sqlite_store.comparisons.apply(project.id, Batch(comparisons=[BASE]))
    with sqlite_store.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    sqlite_store.engine.dispose()

    from sqlalchemy import event

    @event.listens_for(sqlite_store.engine, "connect")
    def _limit(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}")

    sqlite_store.engine.dispose()
    rows = [BASE.__class__(**{**BASE.__dict__, "annotation_id": n}) for n in range(2, 3000)]
    with pytest.raises(StoreError, match="disk"):
        sqlite_store.comparisons.apply(project.id, Batch(comparisons=rows))
    assert len(judged_answers(sqlite_store, project.id)) == 1
