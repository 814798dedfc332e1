"""Snapshots of statistics: a restarted worker goes on from one, and ends where reading everything ends."""

import hashlib
import io
import logging
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evenhand.domain import Batch, Project, ProjectRef, Trigger
from evenhand.project_config import ProjectConfig
from evenhand.runs import statistics
from evenhand.runs.run import data_hash
from evenhand.runs.snapshots import SnapshotError, decode, encode
from evenhand.runs.statistics import StatisticsCache
from evenhand.server.worker import Runs
from evenhand.store import Store
from evenhand.store.schema import statistics_parts
from evenhand.store.snapshots import Snapshot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, update

from fdr_core import SufficientStatistics
from harness.databases import new_store
from harness.label_configs import PAIRWISE
from tests.backend.conftest import FakeClock
from tests.backend.stored_crowd import crowd_rows


@pytest.fixture(autouse=True)
def worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep snapshots of small projects too."""
    monkeypatch.setattr(statistics, "WORTH_KEEPING", 1)


@pytest.fixture
def kept(store: Store, project: Project) -> Project:
    """A project with answers and a snapshot of them."""
    store.comparisons.apply(project.id, Batch(comparisons=crowd_rows()[0]))
    cache, project = StatisticsCache(store), store.projects.get(project.id)
    assert cache.keep(project, cache.catch_up(project))
    return project


@pytest.fixture
def whole_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The projects whose answers were read whole."""
    seen: list[int] = []
    load = StatisticsCache._load

    def watched(cache: StatisticsCache, project: Project, coin_source: Any) -> Any:
        seen.append(project.id)
        return load(cache, project, coin_source)

    monkeypatch.setattr(StatisticsCache, "_load", watched)
    return seen


def parts_of(store: Store, project: Project) -> int:
    query = select(func.count()).where(statistics_parts.c.project_id == project.id)
    with store.database.read() as connection:
        return int(connection.execute(query).scalar_one())


def same(left: SufficientStatistics, right: SufficientStatistics) -> bool:
    """Equal in everything that a run sees, codes included."""
    ours, theirs = left.answers(), right.answers()
    columns = ("annotator", "left", "right", "outcome", "coin", "weight")
    return (
        left == right
        and left.annotators.tolist() == right.annotators.tolist()
        and left.items.tolist() == right.items.tolist()
        and left.coin_labels() == right.coin_labels()
        and left.coin_source == right.coin_source
        and all(np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in columns)
        and np.array_equal(left.sums.laplacian.toarray(), right.sums.laplacian.toarray())
    )


def test_restarted_worker_reads_the_snapshot_and_the_changes_since(
    store: Store, kept: Project, whole_reads: list[int]
) -> None:
    rows, _ = crowd_rows()
    edited = [replace(row, outcome=-row.outcome, updated_at=row.updated_at + 9) for row in rows[:40]]
    store.comparisons.apply(kept.id, Batch(comparisons=edited, deleted_annotations=[rows[50].annotation_id]))
    project = store.projects.get(kept.id)
    current = StatisticsCache(store).catch_up(project)
    assert whole_reads == []
    assert current.unkept == 2 * 40 + 1
    fresh = StatisticsCache(store)._load(project, "task")
    assert current.statistics == fresh.statistics
    assert data_hash(current.statistics) == data_hash(fresh.statistics)


def test_run_keeps_a_snapshot_again_only_when_enough_changed(store: Store, project: Project) -> None:
    rows, _ = crowd_rows()
    store.comparisons.apply(project.id, Batch(comparisons=rows[:-5]))
    runs = Runs(store, "a")
    for count, changed in (
        (1, ()),
        (1, rows[-5:]),
        (2, [replace(r, outcome=-r.outcome, updated_at=2e9) for r in rows]),
    ):
        store.comparisons.apply(project.id, Batch(comparisons=changed))
        store.runs.request(project.id, Trigger.MANUAL)
        runs.once()
        found = store.snapshots.newest(project.id)
        assert found is not None
        assert (found.seq == store.projects.get(project.id).seq) == (not changed or count == 2)
    assert parts_of(store, project) == 1


def test_small_project_keeps_no_snapshot(store: Store, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "WORTH_KEEPING", 10_000)
    store.comparisons.apply(project.id, Batch(comparisons=crowd_rows()[0]))
    store.runs.request(project.id, Trigger.MANUAL)
    Runs(store, "a").once()
    assert parts_of(store, project) == 0


def test_erasure_takes_the_snapshot_and_everybodys_statistics_along(
    store: Store, kept: Project, whole_reads: list[int]
) -> None:
    who = crowd_rows()[0][0].annotator_id
    store.people.erase("http://ls", {who})
    assert parts_of(store, kept) == 0
    project = store.projects.get(kept.id)
    current = StatisticsCache(store).catch_up(project)
    assert whole_reads == [kept.id]
    assert who not in current.statistics.annotators


def test_statistics_from_before_an_erasure_are_not_kept(store: Store, project: Project) -> None:
    rows, _ = crowd_rows()
    store.comparisons.apply(project.id, Batch(comparisons=rows))
    cache, project = StatisticsCache(store), store.projects.get(project.id)
    current = cache.catch_up(project)
    store.people.erase("http://ls", {rows[0].annotator_id})
    assert not cache.keep(project, current)
    assert parts_of(store, project) == 0


def test_removed_project_leaves_no_snapshot_and_gets_none(store: Store, kept: Project) -> None:
    cache = StatisticsCache(store)
    current = cache.catch_up(kept)
    store.removals.erase(kept.id)
    assert not cache.keep(kept, replace(current, unkept=None))
    assert parts_of(store, kept) == 0


def spoil(store: Store, project: Project, **values: Any) -> None:
    with store.database.write() as connection:
        mine = statistics_parts.c.project_id == project.id
        connection.execute(update(statistics_parts).where(mine).values(**values))


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (lambda content: {"content": flipped(content)}, "damaged"),
        (lambda content: {"content": content[:-1]}, "damaged"),
        (lambda content: {"content": b""}, "damaged"),
        (lambda content: {"content": b"PK\x03\x04" * 50}, "damaged"),
        (lambda content: {"fingerprint": "of another version"}, "another version"),
        (lambda content: {"seq": 10**9}, "history"),
    ],
)
def test_snapshot_in_doubt_is_ignored_with_one_line(
    store: Store,
    kept: Project,
    whole_reads: list[int],
    caplog: pytest.LogCaptureFixture,
    values: Callable[[bytes], dict[str, Any]],
    words: str,
) -> None:
    found = store.snapshots.newest(kept.id)
    assert found is not None
    spoil(store, kept, **values(found.content))
    with caplog.at_level(logging.WARNING):
        current = StatisticsCache(store).catch_up(kept)
    assert whole_reads == [kept.id]
    assert len(current.statistics) == kept.counts["judged"]
    (record,) = [record for record in caplog.records if "snapshot" in record.message]
    assert words in record.message


def test_snapshot_under_other_settings_is_ignored(store: Store, kept: Project, whole_reads: list[int]) -> None:
    config = ProjectConfig.model_validate({**kept.config, "coin": "flip"})
    StatisticsCache(store).catch_up(store.projects.set_config(kept.id, config))
    assert whole_reads == [kept.id]


def test_snapshot_of_which_a_part_is_missing_gives_way_to_the_one_before(store: Store, kept: Project) -> None:
    before = store.snapshots.newest(kept.id)
    assert before is not None
    with store.database.write() as connection:
        row = {"project_id": kept.id, "seq": before.seq + 1, "part": 0, "parts": 2, "fingerprint": "x", "content": b"x"}
        connection.execute(statistics_parts.insert(), row)
    assert store.snapshots.newest(kept.id) == before


def test_large_snapshot_is_written_in_parts_and_read_whole(
    store: Store, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.store.snapshots.PART_BYTES", 10)
    for seq in (5, 7):
        whole = Snapshot(seq, "f", bytes(range(95)))
        assert store.snapshots.put(project.id, whole)
        assert store.snapshots.newest(project.id) == whole
    assert parts_of(store, project) == 10


def test_foreign_content_with_a_right_digest_is_refused() -> None:
    statistics_ = SufficientStatistics().add("a", "x", "y", 1.0, coin="c", coin_source="task")
    good = encode(statistics_)
    with np.load(io.BytesIO(zlib.decompress(good[32:])), allow_pickle=False) as stored:
        arrays = dict(stored)

    def sealed(**changed: Any) -> bytes:
        file = io.BytesIO()
        np.savez(file, **{**arrays, **changed})
        body = zlib.compress(file.getvalue())
        return hashlib.sha256(body).digest() + body

    assert decode(sealed(), "task") == statistics_
    labels = np.frombuffer(b'["x", "x"]', dtype=np.uint8)
    pickled = np.array([{"code": "runs"}], dtype=object)
    for changed in (
        {"left": np.array([7])},
        {"right": arrays["left"]},
        {"weight": np.array([0])},
        {"annotator": np.array([0, 0])},
        {"outcomes": np.array([3.0])},
        {"outcomes": np.array([np.nan])},
        {"items": labels},
        {"coins": np.frombuffer(b"[1]", dtype=np.uint8)},
        {"coins": pickled},
    ):
        with pytest.raises(SnapshotError):
            decode(sealed(**changed), "task")
    body = zlib.compress(b"not a file")
    with pytest.raises(SnapshotError):
        decode(hashlib.sha256(body).digest() + body, "task")


def test_statistics_with_coins_of_their_own_or_labels_that_are_no_text_are_not_encoded() -> None:
    for odd in (SufficientStatistics().add("a", "x", "y", 1.0), SufficientStatistics().add(1, "x", "y", 1.0, coin="c")):
        with pytest.raises(SnapshotError):
            encode(odd)


def test_repeated_answers_and_odd_labels_come_back() -> None:
    made = SufficientStatistics()
    for name in ("a", "\ud800", "new\nline", "ü"):
        for outcome in (1.0, 1.0, -1.0, 0.25):
            made.add(name, "x", "y\u2028", outcome, coin=f"coin {name}", coin_source="coin")
    made.remove("a", "x", "y\u2028", 1.0, coin="coin a", coin_source="coin")
    assert same(decode(encode(made), "coin"), made)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(("add", "edit", "delete", "erase", "keep", "restart")), st.integers(0, 59)),
    min_size=3,
    max_size=25,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("snapshots")


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
def test_snapshot_and_changes_equal_reading_everything_after_any_history(folder: Path, actions: list[Any]) -> None:
    store = new_store(folder / f"{abs(hash(str(actions)))}.db", FakeClock())
    try:
        follow(store, actions)
    finally:
        store.close()


def follow(store: Store, actions: list[tuple[str, int]]) -> None:
    """Live through a history; at every restart compare with what reading everything gives."""
    project = store.projects.register("http://ls", ProjectRef(1, 1), title="p", label_config=PAIRWISE)
    rows = crowd_rows(n_annotators=6, n_answers=10)[0][:60]
    cache, clock = StatisticsCache(store), 2e9
    for what, number in [*actions, ("restart", 0)]:
        row, clock = rows[number % len(rows)], clock + 1.0
        if what in ("add", "edit"):
            outcome = row.outcome if what == "add" else -row.outcome
            store.comparisons.apply(project.id, Batch(comparisons=[replace(row, outcome=outcome, updated_at=clock)]))
        elif what == "delete":
            store.comparisons.apply(project.id, Batch(deleted_annotations=[row.annotation_id]))
        elif what == "erase":
            store.people.erase("http://ls", {row.annotator_id})
            assert store.snapshots.newest(project.id) is None
        elif what == "keep":
            now = store.projects.get(project.id)
            cache.keep(now, replace(cache.catch_up(now), unkept=None))
        else:
            now = store.projects.get(project.id)
            cache = StatisticsCache(store)
            current = cache.catch_up(now)
            fresh = StatisticsCache(store)._load(now, "task").statistics
            assert current.statistics == fresh
            assert data_hash(current.statistics) == data_hash(fresh)
            assert len(current.statistics) == now.counts.get("judged", 0)
