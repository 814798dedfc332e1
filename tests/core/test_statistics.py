"""Statistics after any history equal a rebuild from the answers that remain."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdr_core import Comparisons, InputError, SufficientStatistics, detect
from fdr_core.design import components_of
from tests.core.cases import crowd, sums_of
from tests.core.dense import dense_design

ANSWER = st.tuples(
    st.sampled_from(["ann", "bob", "cid"]),
    st.sampled_from([("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "a")]),
    st.sampled_from([1.0, -1.0, 0.0, 1 / 3, -0.7]),
    st.sampled_from([None, "coin 1", "coin 2", "coin 3"]),
)
STEP = st.one_of(
    st.tuples(st.just("add one"), ANSWER),
    st.tuples(st.just("add many"), st.lists(ANSWER, min_size=1, max_size=5)),
    st.tuples(st.just("merge"), st.lists(ANSWER, min_size=1, max_size=5)),
    st.tuples(st.just("remove one"), st.integers(0, 10_000)),
    st.tuples(st.just("remove many"), st.lists(st.integers(0, 10_000), min_size=1, max_size=4)),
    st.tuples(st.just("read"), st.none()),
)


def bulk(rows: Any) -> Any:
    """Comparisons of answers that all have a coin, or all have none."""
    annotators, pairs, outcomes, coins = zip(*rows, strict=True)
    left, right = zip(*pairs, strict=True)
    return Comparisons.from_arrays(
        list(annotators), list(left), list(right), list(outcomes), coin=list(coins) if coins[0] is not None else None
    )


def by_kind(rows: Any) -> Iterator[Any]:
    """Bulk tables have one kind of coin each."""
    for is_own in (True, False):
        part = [row for row in rows if (row[3] is None) == is_own]
        if part:
            yield bulk(part)


def rebuilt(rows: Any) -> Any:
    statistics = SufficientStatistics()
    for annotator, (left, right), outcome, coin in rows:
        statistics.add(annotator, left, right, outcome, coin=coin)
    return statistics


def apply(statistics: Any, rows: Any, step: Any) -> None:
    """One step on the statistics and on the plain list of answers."""
    kind, value = step
    if kind == "add one":
        annotator, (left, right), outcome, coin = value
        statistics.add(annotator, left, right, outcome, coin=coin)
        rows.append(value)
    elif kind == "add many":
        for part in by_kind(value):
            statistics.add(part)
        rows.extend(value)
    elif kind == "merge":
        statistics.merge(rebuilt(value))
        rows.extend(value)
    elif kind == "remove one" and rows:
        annotator, (left, right), outcome, coin = rows.pop(value % len(rows))
        statistics.remove(annotator, left, right, outcome, coin=coin)
    elif kind == "remove many" and rows:
        gone = [rows.pop(index % len(rows)) for index in value if rows]
        for part in by_kind(gone):
            statistics.remove(part)
    elif kind == "read":
        _ = statistics.sums


def by_label(statistics: Any) -> Any:
    """All sums in an order that does not depend on the history."""
    sums = statistics.sums
    item = np.argsort([str(label) for label in statistics.items], kind="stable")
    who = np.argsort([str(label) for label in statistics.annotators], kind="stable")
    alive = np.asarray(abs(sums.laplacian).sum(axis=1)).ravel()[item] > 0
    active = sums.counts[who] > 0
    item, who = item[alive], who[active]
    return {
        "L": sums.laplacian.toarray()[np.ix_(item, item)],
        "B": sums.B.toarray()[np.ix_(item, who)],
        "counts": sums.counts[who],
        "Dy": sums.Dy[item],
        "Ay": sums.Ay[who],
        "yy": sums.yy,
        "n": sums.n,
    }


@pytest.mark.slow
@given(st.lists(STEP, max_size=14))
@settings(max_examples=100)
def test_statistics_after_any_history_equal_a_rebuild(steps: Any) -> None:
    statistics = SufficientStatistics()
    rows: list[Any] = []
    for step in steps:
        apply(statistics, rows, step)
    fresh = rebuilt(rows)
    ours, theirs = by_label(statistics), by_label(fresh)
    for name, value in theirs.items():
        assert np.allclose(ours[name], value, atol=1e-9), name
    assert statistics == fresh
    assert len(statistics) == len(rows)
    assert statistics.answers().weight.sum() == len(rows)
    own = Counter(row[3] is None for row in rows)[True]
    assert len(np.unique(statistics.answers().coin)) == own + len({row[3] for row in rows} - {None})


@pytest.mark.parametrize("n_answers", [600, 30], ids=["many answers", "fewer than cells"])
def test_sums_of_a_table_equal_the_dense_products(n_answers: int) -> None:
    answers = crowd(np.random.default_rng(0), graded=True, n_answers=n_answers)
    sums = sums_of(answers)
    D, _ = dense_design(answers, 8, 20)
    A = np.zeros((len(answers), 20))
    A[np.arange(len(answers)), answers.annotator] = 1.0
    y = answers.outcome
    assert np.allclose(sums.laplacian.toarray(), D.T @ D)
    assert np.allclose(sums.B.toarray(), D.T @ A)
    assert np.allclose(sums.counts, A.sum(axis=0))
    assert np.allclose(sums.Dy, D.T @ y)
    assert np.allclose(sums.Ay, A.T @ y)
    assert sums.yy == pytest.approx(y @ y)
    assert sums.n == len(answers)


@pytest.mark.parametrize("coin", [None, "coin 1"])
def test_remove_of_what_was_never_added_raises(coin: str | None) -> None:
    statistics = SufficientStatistics().add("ann", "a", "b", 1.0, coin=coin)
    statistics.remove("ann", "a", "b", -1.0, coin=coin)
    with pytest.raises(InputError, match="'ann' with outcome -1 was removed more often"):
        statistics.answers()


def test_remove_without_a_coin_leaves_the_equal_answer_under_a_recorded_coin() -> None:
    statistics = SufficientStatistics()
    statistics.add("ann", "a", "b", 1.0).add("ann", "a", "b", 1.0, coin="coin 1")
    statistics.remove("ann", "a", "b", 1.0)
    assert statistics == SufficientStatistics().add("ann", "a", "b", 1.0, coin="coin 1")
    statistics.remove("ann", "a", "b", 1.0)
    with pytest.raises(InputError, match="removed more often"):
        statistics.answers()


def test_remove_of_a_bridge_separates_the_components() -> None:
    statistics = SufficientStatistics()
    statistics.add("ann", "a", "b", 1.0).add("ann", "c", "d", 1.0).add("ann", "b", "c", -1.0)
    assert components_of(statistics.sums.laplacian).max() == 0
    statistics.remove("ann", "b", "c", -1.0)
    assert components_of(statistics.sums.laplacian).max() == 1


def test_repeated_answers_under_one_coin_are_summed() -> None:
    statistics = SufficientStatistics()
    for _ in range(3):
        statistics.add("ann", "a", "b", 1.0, coin="coin 1")
    assert statistics.answers().weight.tolist() == [3.0]


@pytest.mark.parametrize("outcome", [1.5, float("nan"), float("inf"), None])
def test_add_of_an_outcome_outside_the_range_raises(outcome: float | None) -> None:
    with pytest.raises(InputError, match=r"\[-1, 1\]"):
        SufficientStatistics().add("ann", "a", "b", outcome)


def test_add_of_a_self_comparison_raises() -> None:
    with pytest.raises(InputError, match="'a' with itself"):
        SufficientStatistics().add("ann", "a", "a", 1.0)


def test_coin_source_of_several_is_the_least_certain() -> None:
    statistics = SufficientStatistics()
    assert statistics.coin_source == "own"
    assert statistics.add("ann", "a", "b", 1.0, coin=1).coin_source == "coin"
    assert statistics.add("ann", "a", "b", 1.0, coin=2, coin_source="task").coin_source == "task"


def test_skips_added_and_taken_back_are_counted() -> None:
    statistics = SufficientStatistics().skip("a", "b", 3).skip("b", "a").skip("a", "b", -1).skip("b", "a", -1)
    found = statistics.skips()
    assert (found.left.tolist(), found.right.tolist(), found.count.tolist()) == ([0], [1], [2.0])


def test_merge_adds_skips_and_exclusions_by_label() -> None:
    one, other = SufficientStatistics().add("ann", "a", "b", 1.0), SufficientStatistics()
    other.add("bob", "b", "a", 1.0).skip("b", "c", annotator="bob").skip("b", "c", annotator="who only skips")
    other.excluded["prediction"] += 2
    one.merge(other)
    found = one.skips()
    assert [one.items[found.left[0]], one.items[found.right[0]], found.count.tolist()] == ["b", "c", [1.0, 1.0]]
    assert [*one.annotators[found.annotator[:1]], found.annotator[1]] == ["bob", -1]
    assert one.excluded["prediction"] == 2


def test_statistics_are_unhashable_and_unequal_to_other_things() -> None:
    assert SufficientStatistics() != 1
    with pytest.raises(TypeError):
        hash(SufficientStatistics())
    assert repr(SufficientStatistics()) == "SufficientStatistics(0 answers, 0 annotators, 0 items)"


def test_detect_after_answers_were_taken_back_forgets_annotators_and_items_without_answers() -> None:
    statistics = SufficientStatistics()
    for k in range(12):
        statistics.add("ann", *(("a", "b") if k % 2 else ("b", "a")), 1.0)
    statistics.add("gone", "x", "a", 1.0).skip("x", "a").remove("gone", "x", "a", 1.0)
    result = detect(statistics)
    assert result.annotators["annotator"].tolist() == ["ann"]
    assert sorted(result.ranking["item"]) == ["a", "b"]
