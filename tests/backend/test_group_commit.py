"""Group commit: callers share a write, each gets its own result, one bad item fails alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from evenhand.ingest.group_commit import GroupCommit


class SlowDoubler:
    """Doubles numbers in groups; the first group waits until everybody has queued up."""

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate
        self.groups: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        if not self.groups:
            self.groups.append(list(items))
            self.gate.wait()
        else:
            self.groups.append(list(items))
        if 13 in items:
            raise ValueError("thirteen")
        return [2 * item for item in items]


def run(items: list[int]) -> tuple[SlowDoubler, dict[int, object]]:
    gate = threading.Event()
    doubler = SlowDoubler(gate)
    combiner: GroupCommit[int, int] = GroupCommit(doubler)
    results: dict[int, object] = {}

    def submit(item: int) -> None:
        try:
            results[item] = combiner.submit(item)
        except ValueError as error:
            results[item] = str(error)

    threads = [threading.Thread(target=submit, args=(item,)) for item in items]
    threads[0].start()
    while not doubler.groups:
        pass
    for thread in threads[1:]:
        thread.start()
    while len(combiner._waiting) < len(items) - 1:
        pass
    gate.set()
    for thread in threads:
        thread.join()
    return doubler, results


def test_combiner_callers_that_wait_share_one_group() -> None:
    doubler, results = run([1, 2, 3, 4])
    assert results == {1: 2, 2: 4, 3: 6, 4: 8}
    assert [len(group) for group in doubler.groups] == [1, 3]


def test_combiner_one_bad_item_fails_alone() -> None:
    doubler, results = run([1, 2, 13, 4])
    assert results == {1: 2, 2: 4, 13: "thirteen", 4: 8}
    assert sorted(len(group) for group in doubler.groups) == [1, 1, 1, 1, 3]


def test_combiner_large_queue_is_split() -> None:
    combiner: GroupCommit[int, int] = GroupCommit(lambda items: [len(items)] * len(items), largest=2)
    assert [combiner.submit(item) for item in range(3)] == [1, 1, 1]


def test_leader_goes_on_after_its_own_group_and_the_next_one_leads() -> None:
    leaders: list[str] = []

    def apply(items: Sequence[int]) -> list[int]:
        leaders.append(threading.current_thread().name)
        while len(combiner._waiting) < 1 and len(leaders) == 1:
            pass
        return list(items)

    combiner: GroupCommit[int, int] = GroupCommit(apply)
    threads = [threading.Thread(target=combiner.submit, args=(number,), name=str(number)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(leaders) == ["0", "1"]
    assert combiner.submit(7) == 7


def test_fatal_error_fails_all_who_wait_and_then_passes() -> None:
    gate, calls = threading.Event(), []

    def apply(items: Sequence[int]) -> list[int]:
        calls.append(items)
        if len(calls) == 1:
            gate.wait()
            raise OSError("the disk is gone")
        return list(items)

    now = [100.0]
    combiner: GroupCommit[int, int] = GroupCommit(apply, fatal=(OSError,), pause=1.0, clock=lambda: now[0])
    seen: list[str] = []

    def submit(item: int) -> None:
        try:
            combiner.submit(item)
        except OSError as error:
            seen.append(str(error))

    threads = [threading.Thread(target=submit, args=(item,)) for item in range(3)]
    threads[0].start()
    while not calls:
        pass
    for thread in threads[1:]:
        thread.start()
    while len(combiner._waiting) < 2:
        pass
    gate.set()
    for thread in threads:
        thread.join()
    assert seen == ["the disk is gone"] * 3
    assert len(calls) == 1
    with pytest.raises(OSError, match="disk"):
        combiner.submit(4)
    now[0] += 1.0
    assert combiner.submit(5) == 5


def test_end_of_the_process_leaves_nobody_waiting() -> None:
    def apply(items: Sequence[int]) -> list[int]:
        raise KeyboardInterrupt

    combiner: GroupCommit[int, int] = GroupCommit(apply)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            combiner.submit(1)
