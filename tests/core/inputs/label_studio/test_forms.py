"""Forms of preference data: rankings, ratings of each response, choices among several, repeated questions."""

from __future__ import annotations

from typing import Any

import pytest

from fdr_core import Comparisons, InputError
from fdr_core.inputs.label_studio.answers import Given, read_answer
from fdr_core.inputs.label_studio.reading import Wanted, resolve
from fdr_core.inputs.label_studio.setup import parse_label_config
from tests.core.inputs.label_studio.test_setups import config_of

LIST = [{"id": name, "title": name.upper(), "body": f"text of {name}"} for name in "abc"]


def result(control: str, kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"from_name": control, "to_name": "x", "type": kind, "value": value, **more}


def read(name: str, data: dict[str, Any], *results: dict[str, Any], **wanted: Any) -> Given:
    how = resolve(Wanted(**wanted), parse_label_config(config_of(name)))
    return read_answer({"result": list(results)}, how, data)


def pairs(given: Given) -> list[tuple[str, str, float]]:
    return [(pair.left, pair.right, pair.outcome) for pair in given.pairs]


def ranked(*order: Any, name: str = "shipped: visual-ranker", **wanted: Any) -> Given:
    return read(name, {"images": LIST}, result("rank", "ranker", {"ranker": {"rank": list(order)}}), **wanted)


def test_ranking_gives_every_pair_in_the_order_in_which_the_items_stood() -> None:
    given = ranked("c", "a", "b", item_left="id")
    assert pairs(given) == [("a", "b", 1.0), ("a", "c", -1.0), ("b", "c", -1.0)]
    assert [pair[0] for pair in pairs(ranked("c", "a", "b"))] == ["text of a", "text of a", "text of b"]


def test_ranking_with_ties_and_missing_items_gives_what_it_says() -> None:
    assert pairs(ranked(["b", "c"], "a", item_left="id")) == [("a", "b", -1.0), ("a", "c", -1.0), ("b", "c", 0.0)]
    assert pairs(ranked("c", "a", item_left="id")) == [("a", "c", -1.0)]
    assert ranked("a").status == "empty"


@pytest.mark.parametrize(
    ("order", "words"),
    [(("a", "z"), "'z', which the task's list lacks"), (("a", "a"), "'a' twice"), ((["a", 3], "b"), "'3', which")],
)
def test_ranking_that_names_what_is_not_there_is_unreadable_with_a_reason(order: Any, words: str) -> None:
    given = ranked(*order)
    assert given.status == "unreadable"
    assert words in (given.reason or "")


@pytest.mark.parametrize("value", [None, {}, {"ranker": 3}, {"ranker": {"rank": "a"}}])
def test_ranking_of_a_wrong_shape_is_unreadable(value: Any) -> None:
    given = read("shipped: visual-ranker", {"images": LIST}, result("rank", "ranker", value))
    assert given.status == "unreadable"


def test_buckets_are_kinds_and_what_was_not_moved_is_not_ranked() -> None:
    value = {"ranker": {"relevant_results": ["c", "a"], "biased_results": ["b"], "_": []}}
    given = read("shipped: llm-ranker", {"items": LIST}, result("rank", "ranker", value), item_left="title")
    assert pairs(given) == [("A", "C", -1.0)]


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (None, "no list 'images'"),
        (LIST[:1], "at least two items"),
        ([{"id": k, "body": str(k)} for k in range(2000)], "has 2,000 items; at most 40 are compared"),
        ([LIST[0], LIST[0]], "names one item twice"),
    ],
)
def test_list_that_cannot_be_compared_is_said_so(items: Any, words: str) -> None:
    given = read("shipped: visual-ranker", {"images": items}, result("rank", "ranker", {"ranker": {"rank": ["a"]}}))
    assert words in (given.reason or "")


@pytest.mark.parametrize(
    ("picked", "expected"),
    [
        (["Two"], [("i1", "i2", -1.0), ("i2", "i3", 1.0)]),
        (["One", "Three"], [("i1", "i2", 1.0), ("i2", "i3", -1.0)]),
        (["One", "Two", "Three"], []),
    ],
)
def test_chosen_items_stand_above_those_that_were_not(picked: list[str], expected: Any) -> None:
    data = {"query_image": "q", "image1": "i1", "image2": "i2", "image3": "i3"}
    given = read("shipped: content-based-image-search", data, result("similar", "choices", {"choices": picked}))
    assert pairs(given) == expected
    assert given.status == ("answer" if expected else "empty")


def test_choices_that_tasks_bring_along_are_read_by_their_values() -> None:
    data = {"transcriptions": [{"value": "one"}, {"value": "two"}, {"value": "three"}]}
    given = read("shipped: asr-hypotheses", data, result("transcriptions", "choices", {"choices": ["two"]}))
    assert pairs(given) == [("one", "two", -1.0), ("two", "three", 1.0)]
    lost = read("shipped: asr-hypotheses", data, result("transcriptions", "choices", {"choices": ["four"]}))
    assert (lost.status, lost.word) == ("unreadable", "four")


def rates(first: Any, second: Any) -> Given:
    results = [result("rate_a", "rating", {"rating": first}), result("rate_b", "rating", {"rating": second})]
    return read("a Rating each", {}, *(one for one in results if one["value"]["rating"] is not None))


@pytest.mark.parametrize(("first", "second", "outcome"), [(5, 1, 1.0), (2, 3, -0.25), (4, 4, 0.0)])
def test_difference_of_two_ratings_is_a_grade(first: int, second: int, outcome: float) -> None:
    assert (rates(first, second).status, rates(first, second).outcome) == ("answer", outcome)


@pytest.mark.parametrize(
    ("first", "second", "words"), [(7, 1, "outside its scale, 1 to 5"), (3, None, "1 of 2 responses are rated")]
)
def test_ratings_that_do_not_fit_are_unreadable_with_a_reason(first: Any, second: Any, words: str) -> None:
    given = rates(first, second)
    assert given.status == "unreadable"
    assert words in (given.reason or "")


def test_three_numbers_give_three_graded_pairs() -> None:
    results = [result(f"n{k}", "number", {"number": number}) for k, number in ((1, 10), (2, 5), (3, 0))]
    given = read("a Number each of three", {"r1": "x", "r2": "y", "r3": "z"}, *results)
    assert pairs(given) == [("x", "y", 0.5), ("x", "z", 1.0), ("y", "z", 0.5)]


def test_repeated_questions_are_read_by_their_index() -> None:
    data = {"pairs": [{"answer_a": "x", "answer_b": "y"}, {"answer_a": "u", "answer_b": "v"}]}
    results = [result("pw_1", "pairwise", {"selected": "right"}), result("pw_0", "pairwise", {"selected": "left"})]
    given = read("Repeater", data, *results)
    assert [(p.question, p.left, p.right, p.outcome) for p in given.pairs] == [
        ("0", "x", "y", 1.0),
        ("1", "u", "v", -1.0),
    ]
    beyond = read("Repeater", data, result("pw_7", "pairwise", {"selected": "left"}))
    assert beyond.status == "unreadable"


def test_every_region_is_asked_about_the_same_pair() -> None:
    data = {"answer_a": "x", "answer_b": "y"}
    results = [result("pref", "choices", {"choices": [word]}, id=word) for word in ("A", "B", "Tie")]
    assert pairs(read("per region", data, *results)) == [("x", "y", 1.0), ("x", "y", -1.0), ("x", "y", 0.0)]


def test_export_of_rankings_is_read_without_a_label_config() -> None:
    def task(number: int, *orders: str) -> dict[str, Any]:
        annotations = [
            {"completed_by": k, "result": [result("rank", "ranker", {"ranker": {"rank": list(order)}})]}
            for k, order in enumerate(orders, start=1)
        ]
        return {"id": number, "data": {"prompt": "?", "entries": LIST}, "annotations": annotations}

    c = Comparisons.from_label_studio([task(1, "abc", "cba"), task(2, "bac")], item_left="id")
    assert (len(c), c.n_annotators, list(c.items), c.coin_source) == (9, 2, ["a", "b", "c"], "task")
    assert c.coin.tolist() == [0] * 6 + [1] * 3
    with pytest.raises(InputError, match="'z', which the task's list lacks"):
        Comparisons.from_label_studio([task(1, "abc", "z")])
