"""The fuzzers' short mode: mutated inputs for every target, without a guide; `tests.fuzz` is the long one."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.fuzz import targets
from tests.fuzz.__main__ import mutated, run_plain
from tests.fuzz.targets import TARGETS, Target

INPUTS = {"http bodies": 60, "http paths": 60}


@pytest.fixture(scope="module", autouse=True)
def files() -> Iterator[None]:
    yield
    targets._client().application.extensions["evenhand"].store.close()
    targets.clean_up()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_target_fed_with_mutated_seeds_raises_nothing_unexpected(target: Target) -> None:
    assert run_plain(target, INPUTS.get(target.name, 150), seed=2026) > 0


def test_harness_notices_an_unexpected_exception_and_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(data: bytes) -> None:
        if b"left" in data:
            raise KeyError("left")

    def hangs(_data: bytes) -> None:
        while True:
            pass

    with pytest.raises(KeyError):
        run_plain(Target("breaks", breaks, lambda: [b"left"], 1), 10, seed=1)
    monkeypatch.setattr("tests.fuzz.__main__.SECONDS_PER_INPUT", 0.2)
    with pytest.raises(TimeoutError, match="hangs"):
        run_plain(Target("hangs", hangs, lambda: [b""], 1), 1, seed=1)


def test_mutations_are_the_same_for_the_same_seed_and_differ_from_the_input() -> None:
    made = [mutated(b"annotator,left,right", random.Random(7)) for _ in range(2)]
    assert made[0] == made[1] != b"annotator,left,right"


def test_shares_of_the_targets_add_up_to_a_thousand() -> None:
    assert sum(target.share for target in TARGETS) == 1000
