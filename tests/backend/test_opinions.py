"""Words that depend on which method decides: evidence, flags beside an interval that holds 0, how a list was made."""

from __future__ import annotations

from typing import Any

import pytest

from fdr_core.report.opinions import (
    differs_words,
    draws_made,
    holds_zero_words,
    lasting_words,
    lists_words,
    made_words,
    strength,
)
from fdr_core.report.words import list_words

EXACT = {
    **{"decided_by": "exact", "exact_list": 3, "lbi_list": 2, "draws_done": 2, "draws_asked": 21},
    **{"differences": 1, "converged": True},
}
SCORED = "Item scores are fitted together with the biases of the flagged annotators."


def report(method: dict[str, Any], *, how: str = "own coins", construction: str = "flip", **parameters: Any) -> Any:
    return {"method": method, "audit": {"how": how, "construction": construction}, "parameters": parameters}


@pytest.mark.parametrize(
    ("own", "adjusted", "expected"),
    [
        (0.001, 0.2, "strong"),
        (0.01, 0.001, "moderate"),
        (0.05, None, "weak"),
        (0.051, 0.06, "none"),
        (None, 0.01, "–"),
    ],
)
def test_strength_of_evidence_is_of_the_persons_own_test(own: Any, adjusted: Any, expected: str) -> None:
    assert strength({"p_value": own, "q_value": adjusted, "lbi_share": 1.0}) == expected


@pytest.mark.parametrize(
    ("flagged", "decisions", "kind", "expected"),
    [
        (0, [], "FDR, proven", "Nobody of 40 is flagged. That clears nobody."),
        (7, [], "FDR, proven", "7 of 40 flagged. Lists made this way are on average at most 10 % wrong."),
        (
            7,
            ["confirm"] * 5 + ["dismiss"],
            "FDR, measured",
            "7 of 40 flagged: 5 confirmed, 1 dismissed, 1 open. "
            "Lists made this way were on average at most 10 % wrong in simulations.",
        ),
        (
            1,
            ["watch"],
            "FDR, proven if the sides were assigned by chance",
            "1 of 40 flagged: 1 watched. "
            "Lists made this way are on average at most 10 % wrong if the sides were assigned by chance.",
        ),
        (2, [], "nothing proven (sides not random)", "2 of 40 flagged."),
    ],
)
def test_headline_bounds_many_lists_and_forecasts_none(
    flagged: int, decisions: list[str], kind: str, expected: str
) -> None:
    rows = [{"flagged": k < flagged, "decision": decisions[k] if k < len(decisions) else None} for k in range(40)]
    assert list_words(rows, kind, 0.1) == expected


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ({"draws_done": 2, "parameters": {"draws": 21}}, 2),
        ({"draws_done": 0, "parameters": {"draws": 21}}, 0),
        ({}, None),
        (None, None),
    ],
)
def test_number_of_draws_is_of_those_made(summary: Any, expected: int | None) -> None:
    assert draws_made(summary) == expected


@pytest.mark.parametrize(
    ("row", "needs"),
    [
        ({"flagged": True, "bias_low": -0.1, "bias_high": 0.4}, True),
        ({"flagged": True, "bias_low": 0.0, "bias_high": 0.4}, True),
        ({"flagged": True, "bias_low": 0.1, "bias_high": 0.4}, False),
        ({"flagged": False, "bias_low": -0.1, "bias_high": 0.4}, False),
        ({"flagged": True, "bias_low": None, "bias_high": None}, False),
    ],
)
def test_flag_beside_an_interval_that_holds_0_is_explained_and_no_other(row: dict[str, Any], needs: bool) -> None:
    assert bool(holds_zero_words(row)) == needs


def test_place_on_one_list_only_is_said_of_the_list_that_does_not_decide() -> None:
    on_exact, on_lbi = ({"difference": "why", "exact_list": is_exact} for is_exact in (True, False))
    assert [differs_words(row, "exact") for row in (on_exact, on_lbi)] == [
        "not on the LBI list",
        "on the LBI list only",
    ]
    assert [differs_words(row, "lbi") for row in (on_exact, on_lbi)] == [
        "on the exact list only",
        "not on the exact list",
    ]
    assert differs_words({"difference": "", "exact_list": None}, "exact") == ""


def test_lasting_flags_rest_on_exact_tests_is_said_where_the_list_does_not() -> None:
    assert lasting_words("exact") == lasting_words(None) == ""
    assert "rest on the exact tests" in lasting_words("lbi")


@pytest.mark.parametrize(
    ("changes", "how", "expected"),
    [
        ({}, "own coins", "list 3 annotators; knockoff LBI, after 2 of 21 draws, lists 2. They differ on 1 annotator."),
        ({"differences": 0}, "own coins", "lists 2. The two lists are the same."),
        ({"lbi_list": None, "draws_done": 0, "draws_asked": 0}, "own coins", "annotators; knockoff LBI was left out."),
        ({"lbi_list": None, "draws_done": 0}, "own coins", "annotators; knockoff LBI could judge nobody."),
        ({"decided_by": "lbi", "exact_list": 0}, "none", "The exact tests could judge nobody; knockoff LBI, after 2"),
    ],
)
def test_lists_are_counted_where_their_method_judged_somebody(changes: Any, how: str, expected: str) -> None:
    assert expected in lists_words({**EXACT, **changes}, {"how": how})


def test_lists_of_an_empty_run_are_not_invented() -> None:
    assert lists_words({}, None) == ""
    assert "could judge nobody" in lists_words({"decided_by": "exact"}, {"how": "none"})


def test_method_where_exact_tests_decide_names_lbi_beside_them_with_the_draws_made() -> None:
    told = made_words(report(EXACT))
    assert "The list follows from all p-values together" in told
    assert "runs beside it: in 2 draws" in told
    assert told.endswith("the same figures.")


def test_method_without_draws_does_not_speak_of_lbi_running() -> None:
    told = made_words(report({**EXACT, "draws_done": 0, "draws_asked": 0, "lbi_list": None}))
    assert "was left out" in told
    assert "beside" not in told


@pytest.mark.parametrize(("aggregate", "rule"), [("majority", "more than half of the draws"), ("evalues", "e-values")])
def test_method_where_lbi_decides_names_its_rule_and_the_exact_tests_beside_it(aggregate: str, rule: str) -> None:
    told = made_words(report({**EXACT, "decided_by": "lbi"}, lbi=f"aggregate={aggregate}"))
    assert "The list is that of knockoff LBI" in told
    assert rule in told
    assert "Exact tests of each annotator run beside it" in told
    assert "The list follows from all p-values" not in told


def test_method_where_lbi_decides_and_judged_nobody_says_that_there_is_no_list() -> None:
    method = {**EXACT, "decided_by": "lbi", "draws_done": 0, "lbi_list": None}
    assert "so there is no list" in made_words(report(method, construction="none"))


def test_method_that_judged_nobody_describes_no_tests() -> None:
    nobody = made_words(report({**EXACT, "draws_done": 0}, how="none", construction="none"))
    assert nobody.startswith("Nobody was judged, so there is no list")
    assert "tested" not in nobody
    assert SCORED in nobody
