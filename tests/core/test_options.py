"""One table of options: what `detect` takes, what other modules register, and that bounds hold."""

import inspect
from collections.abc import Collection
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from fdr_core import ConfigurationError, detect, simulate
from fdr_core.audit import METHODS, SIDES
from fdr_core.options import BY_NAME, OPTIONS, Option, Options
from fdr_core.paper.cuts import CUTS
from fdr_core.paper.paths import PATHS
from fdr_core.paper.slack import SOLVERS


def test_detect_takes_every_option_of_the_table_with_its_default() -> None:
    signature = inspect.signature(detect).parameters
    taken = {name: entry.default for name, entry in signature.items() if name not in ("data", "progress", "clock")}
    assert taken == {option.name: option.default for option in OPTIONS}
    assert list(taken) == list(BY_NAME)


def test_checked_values_name_every_option_in_the_order_of_the_table() -> None:
    assert [field.name for field in fields(Options)] == list(BY_NAME)


@pytest.mark.parametrize(
    ("name", "registered"),
    [("path", PATHS), ("cut", CUTS), ("sides", SIDES), ("method", METHODS), ("slack_solver", SOLVERS)],
)
def test_choices_are_what_is_registered(name: str, registered: Collection[str]) -> None:
    assert set(BY_NAME[name].choices) == set(registered)


def test_copies_with_the_papers_construction_are_refused() -> None:
    team = simulate.small_team(12, 2, 100, rng=np.random.default_rng(5))
    with pytest.raises(ConfigurationError, match=r"copies was 7, but the paper's construction .* has one copy"):
        detect(team.comparisons, method="paper", copies=7)
    assert detect(team.comparisons, method="paper", copies=1, draws=1).parameters["copies"] == 1


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_option_has_a_title_words_and_a_default_that_fits(option: Option) -> None:
    assert option.fits(option.default)
    assert option.title
    assert option.words.endswith(".")
    assert all(option.choices.values())
    assert option.may_be_empty == option.fits(None)


@pytest.mark.parametrize(
    ("option", "inside", "outside"),
    [
        (Option("x", 1, "X", "X.", low=0, high=2), (0, 0.5, 2), (-1e-9, 2.1, float("nan"), "1", True, None)),
        (Option("x", 1, "X", "X.", low=0, high=2, excludes_bounds=True), (1e-9, 1.9), (0, 2)),
        (Option("x", 1, "X", "X.", is_whole=True, low=1), (1, 10**9), (0, 1.0, "1", True)),
        (Option("x", None, "X", "X.", is_whole=True, low=1, may_be_empty=True), (None, 3), (0,)),
        (Option("x", "a", "X", "X.", {"a": "A", "b": "B"}), ("a", "b"), ("c", "A", 1, None, ["a"])),
    ],
)
def test_option_takes_what_lies_within_and_refuses_the_rest(
    option: Option, inside: tuple[Any, ...], outside: tuple[Any, ...]
) -> None:
    for value in inside:
        option.check(value)
    for value in outside:
        with pytest.raises(ConfigurationError, match=r"x was .*; expected "):
            option.check(value)
