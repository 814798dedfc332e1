"""One table of options: what `detect` takes, what other modules register, and that bounds hold."""

import inspect
from collections.abc import Collection
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from fdr_core import ConfigurationError, KnockoffLBI, detect, simulate
from fdr_core.audit import METHODS, SIDES
from fdr_core.option import Option
from fdr_core.options import BY_NAME, LBI_OPTIONS, OPTIONS, Options
from fdr_core.paper.draws import CUTS
from fdr_core.paper.knockoff_lbi import text_of
from fdr_core.paper.paths import PATHS
from fdr_core.paper.slack import SOLVERS

LBI = {option.name: option for option in LBI_OPTIONS}


def test_detect_takes_every_option_of_the_table_with_its_default() -> None:
    signature = inspect.signature(detect).parameters
    taken = {name: entry.default for name, entry in signature.items() if name not in ("data", "progress", "clock")}
    assert taken == {**{option.name: option.default for option in OPTIONS}, "lbi": KnockoffLBI()}
    assert list(taken) == [field.name for field in fields(Options)]


def test_every_field_of_the_papers_method_is_an_option() -> None:
    assert [field.name for field in fields(KnockoffLBI)] == list(LBI)


@pytest.mark.parametrize(
    ("option", "registered"),
    [
        (BY_NAME["sides"], SIDES),
        (LBI["path"], PATHS),
        (LBI["cut"], CUTS),
        (LBI["construction"], METHODS),
        (LBI["slack"], SOLVERS),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_choices_are_what_is_registered(option: Option, registered: Collection[str]) -> None:
    assert set(option.choices) == set(registered)


def test_one_copy_with_the_papers_construction_is_what_it_makes() -> None:
    team = simulate.small_team(12, 2, 100, rng=np.random.default_rng(5))
    made = detect(team.comparisons, decide_by="lbi", lbi=KnockoffLBI(construction="paper", copies=1, draws=1))
    assert "copies=1," in made.parameters["lbi"]


@pytest.mark.parametrize(
    ("text", "differing"),
    [
        ("", {}),
        ("draws=50, path=iss", {"draws": 50, "path": "iss"}),
        ("seconds=none,copies=3", {"seconds": None, "copies": 3}),
        ("construction=paper,judge=everybody,variance=plain", None),
        ("draws=5,draws=7,", {"draws": 7}),
    ],
)
def test_text_is_read_and_written_back(text: str, differing: dict[str, Any] | None) -> None:
    read = KnockoffLBI.parse(text)
    assert KnockoffLBI.parse(text_of(read)) == read
    assert differing is None or read == KnockoffLBI(**differing)


def test_off_leaves_the_papers_method_out() -> None:
    assert KnockoffLBI.parse(" OFF ") is None
    assert text_of(None) == "off"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("draws", "lbi has 'draws'; expected off, or names with values such as draws=50,path=iss"),
        ("shots=3", "lbi has 'shots=3'"),
        ("draws=0", "draws was 0; expected a whole number from 1 to 10000"),
        ("draws=many", "draws was 'many'; expected"),
        ("path=shortest", "path was 'shortest'; expected one of lbi, iss"),
        ("draws=none", "draws was 'none'"),
        ("seconds=0", "seconds was 0.0; expected nothing, or a number from 0.1"),
        ("seconds=nan", "seconds was nan"),
        ("seed=-1", "seed was -1"),
        ("copies=7,construction=paper", r"the paper's construction .* has one copy"),
        ("judge=everybody", "judge='everybody' was given with construction='auto'"),
    ],
)
def test_text_that_does_not_fit_is_refused_and_named(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        KnockoffLBI.parse(text)


@pytest.mark.parametrize("option", [*OPTIONS, *LBI_OPTIONS], ids=lambda option: option.name)
def test_option_has_a_title_words_and_a_default_that_fits(option: Option) -> None:
    assert option.fits(option.default)
    assert option.title
    assert option.words.endswith(".")
    assert all(option.choices.values())
    assert option.may_be_empty == option.fits(None)


@pytest.mark.parametrize(
    ("option", "inside", "outside"),
    [
        (Option("X", "X.", 1, name="x", low=0, high=2), (0, 0.5, 2), (-1e-9, 2.1, float("nan"), "1", True, None)),
        (Option("X", "X.", 1, name="x", low=0, high=2, excludes_bounds=True), (1e-9, 1.9), (0, 2)),
        (Option("X", "X.", 1, name="x", is_whole=True, low=1), (1, 10**9), (0, 1.0, "1", True)),
        (Option("X", "X.", None, name="x", is_whole=True, low=1, may_be_empty=True), (None, 3), (0,)),
        (Option("X", "X.", "a", {"a": "A", "b": "B"}, name="x"), ("a", "b"), ("c", "A", 1, None, ["a"])),
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
