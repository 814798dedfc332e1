"""Leans beyond position: features, gold, lists and what is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fdr_core import Comparisons, ConfigurationError, InputError
from fdr_core.other_leans import Column, LeanList, Longer, MoreFormatted, Newer, OwnFamily, detect_leans
from fdr_core.other_leans.features import chosen_features, measure
from fdr_core.other_leans.gold import read_gold
from fdr_core.other_leans.lists import listed

ITEMS = pd.DataFrame(
    {
        "item": ["a", "b", "c"],
        "text": ["word", "word word", "- **x**\n- y"],
        "created": ["2026-01-01", "2026-01-03", "2026-01-02"],
        "price": [1.0, 2.0, 4.0],
    }
)


def little(**columns: Any) -> Comparisons:
    """Three answers on three items."""
    table = {"annotator": ["u", "u", "v"], "left": ["a", "b", "c"], "right": ["b", "c", "a"], "outcome": [1, -1, 0]}
    return Comparisons.from_frame(pd.DataFrame({**table, **columns}), items=ITEMS)


def crowd(n: int = 300, *, longer: tuple[int, ...] = (0, 1), seed: int = 0) -> pd.DataFrame:
    """Ten people judge pairs of texts; some choose the longer one more often than quality says."""
    rng = np.random.default_rng(seed)
    who, pair = np.repeat(np.arange(10), n), np.tile(np.arange(n), 10)
    gold, size = rng.choice([-1, 1], n), rng.integers(50, 500, (n, 2))
    way = rng.choice([-1, 1], len(who))
    x = np.tanh(np.log(size[:, 0] / size[:, 1]))[pair]
    eta = gold[pair] + np.isin(who, longer) * 2.0 * x
    first = np.where(rng.random(len(who)) < 1 / (1 + np.exp(-eta)), 1, -1)
    table = pd.DataFrame({"annotator": who, "outcome": first * way})
    table["gold"] = np.where(gold[pair] * way > 0, "left", "right")
    for side, place in (("left", way < 0), ("right", way > 0)):
        table[side], table[f"chars_{side}"] = 2 * pair + place, size[pair, place.astype(int)]
    return table


def lean(table: Any, *leans: Any, **options: Any) -> LeanList:
    """The list of the first lean."""
    made = Comparisons.from_frame(table)
    options = {"gold": "gold", "with_position": False, "placebos": 0, **options}
    found = detect_leans(made, list(leans) or ["length"], **options)
    one = next(iter(found.values()))
    assert isinstance(one, LeanList)
    return one


def test_features_by_hand() -> None:
    data = little()
    np.testing.assert_allclose(Longer().difference(data), np.tanh(np.log([4 / 9, 9 / 11, 11 / 4])))
    # c has one line break, two list marks and two of emphasis.
    np.testing.assert_allclose(MoreFormatted().difference(data), np.tanh(np.log([1, 1 / 6, 6])))
    np.testing.assert_array_equal(Newer().difference(data), [-1, 1, 1])
    np.testing.assert_array_equal(Column("price", "the dearer item").difference(data), [-1, -2, 3])
    family = OwnFamily(mapping={"u": "f", "a": "f", "v": "g", "c": "f"})
    np.testing.assert_array_equal(family.difference(data), [1, -1, 0])


def test_features_have_typical_size_one_and_turn_with_the_sides() -> None:
    data = little()
    turned = Comparisons.from_frame(
        data.to_frame()[["annotator", "left", "right", "outcome"]].rename(columns={"left": "right", "right": "left"}),
        items=ITEMS,
    )
    features = chosen_features(["length", "format", "newer", "price"])
    np.testing.assert_allclose(measure(turned, features), -measure(data, features))
    np.testing.assert_allclose((measure(data, features) ** 2).mean(axis=0), 1.0)


def test_features_ready_made_column_goes_before_texts_and_survives_a_selection() -> None:
    data = little(x_length=[0.5, 0.25, -1.0])
    np.testing.assert_array_equal(Longer().difference(data.take(np.array([0, 2]))), [0.5, -1.0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x_length": [1.0, None, 2.0]}, "x_length is missing, or cannot be read, in 1 of 3 answers"),
        ({"x_length": [0.0, 0.0, 0.0]}, "length is the same for both items of every pair"),
        ({"text_left": ["a", None, "b"], "text_right": ["a", "b", "b"]}, "text_left is missing.*first of item 'b'"),
    ],
)
def test_features_that_cannot_be_measured_are_refused(change: dict[str, Any], words: str) -> None:
    table = {"annotator": ["u", "u", "v"], "left": ["a", "b", "c"], "right": ["b", "c", "a"], "outcome": [1, -1, 0]}
    with pytest.raises(InputError, match=words):
        measure(Comparisons.from_frame(pd.DataFrame({**table, **change})), [Longer()])


def test_features_that_do_not_turn_with_the_sides_are_refused() -> None:
    table = pd.DataFrame({"annotator": "u", "left": ["a", "b"], "right": ["b", "a"], "outcome": 1, "x_length": [2, 2]})
    with pytest.raises(InputError, match="length does not change its sign with the sides"):
        measure(Comparisons.from_frame(table), [Longer()])


def test_features_nothing_tells_are_refused_with_what_there_is() -> None:
    data = Comparisons.from_arrays(["u"], ["a"], ["b"], [1])
    with pytest.raises(InputError, match="nothing tells the text_left of the answers' items; found: none"):
        measure(data, [Longer()])
    with pytest.raises(ConfigurationError, match="own family needs a map"):
        measure(data, [OwnFamily()])
    with pytest.raises(ConfigurationError, match="expected different names"):
        chosen_features(["length", Longer()])


def test_gold_as_words_items_and_numbers_says_the_same() -> None:
    for gold in (["left", "right", "tie"], ["a", "c", "tie"], [1, -1, 0]):
        found = read_gold(little(gold=gold), "gold")
        assert found is not None
        np.testing.assert_array_equal(found.z, [1, -1, 0])
    with pytest.raises(InputError, match="row 2 has gold 'z'"):
        read_gold(little(gold=["left", "z", "tie"]), "gold")
    with pytest.raises(InputError, match="there is no column better; found: gold"):
        read_gold(little(gold=["left", "left", "tie"]), "better")


def test_gold_of_reference_people_is_their_mean_and_they_are_not_judged() -> None:
    table = {"annotator": list("uvwu"), "left": list("abab"), "right": list("babc"), "outcome": [1, 1, -1, 1]}
    found = read_gold(Comparisons.from_frame(pd.DataFrame(table)), reference=["v", "w"])
    assert found is not None
    np.testing.assert_array_equal(found.is_judged, [True, False, False, False])
    assert found.z[0] == -1.0
    assert np.isnan(found.z[3])
    with pytest.raises(ConfigurationError, match="reference names 'x'"):
        read_gold(little(), reference=["x"])


def test_gold_that_label_studio_marks_only_where_it_is_named() -> None:
    def annotation(who: int, selected: str, *, marked: bool) -> dict[str, Any]:
        result = {"from_name": "better", "type": "pairwise", "value": {"selected": selected}}
        return {"completed_by": who, "ground_truth": marked, "result": [result]}

    task = {
        "id": 1,
        "data": {"left": "some text", "right": "more text"},
        "annotations": [annotation(1, "left", marked=True), annotation(2, "right", marked=False)],
    }
    data = Comparisons.from_label_studio([task])
    assert read_gold(data) is None
    found = read_gold(data, "ground_truth")
    assert found is not None
    assert found.z.tolist() == [1, 1]
    assert found.is_judged.tolist() == [False, True]
    assert data.features is not None
    assert data.features["text_left"].tolist() == ["some text"] * 2


def test_detect_leans_lists_who_follows_length_and_says_how_much() -> None:
    found = lean(crowd(), placebos=3)
    assert sorted(found.flagged) == [0, 1]
    assert found.how == "gold"
    row = found.annotators.set_index("annotator").loc[0]
    assert row["low"] < row["effect"] < row["high"]
    assert row["finding"].startswith("chooses the longer item in ")
    assert "more of such pairs" in row["finding"]
    assert found.placebos is not None
    assert found.placebos.are_sound


def test_detect_leans_effect_is_the_share_of_pairs_in_which_the_lean_decides() -> None:
    """Against the truth of the simulation: P with the lean less P without it, over all pairs."""
    table = crowd(4000, longer=(0,))
    own = table[table["annotator"] == 0]
    x = np.tanh(np.log((own["chars_left"] / own["chars_right"]).to_numpy()))
    z = np.where(own["gold"] == "left", 1.0, -1.0)
    true = np.mean(np.sign(x) * (1 / (1 + np.exp(-z - 2 * x)) - 1 / (1 + np.exp(-z))))
    row = lean(table).annotators.set_index("annotator").loc[0]
    assert row["low"] < true < row["high"]
    assert row["high"] - row["low"] < 0.06


def test_detect_leans_does_not_depend_on_the_order_of_sides() -> None:
    table = crowd()
    swap = {"left": "right", "right": "left", "chars_left": "chars_right", "chars_right": "chars_left"}
    turned = table.rename(columns=swap).assign(
        outcome=-table["outcome"], gold=table["gold"].map({"left": "right", "right": "left"})
    )
    one, two = (lean(t).annotators.set_index("annotator").sort_index() for t in (table, turned))
    np.testing.assert_allclose(one["coefficient"], two["coefficient"], atol=1e-5)


def test_detect_leans_all_is_one_list_over_everything() -> None:
    p = [np.array([0.001, 0.04, np.nan]), np.array([0.002, 0.9, 0.8])]
    (q_one, on_one), (q_two, _) = listed(p, 0.1, "all")
    np.testing.assert_allclose(q_one, [0.005, 0.2 / 3, np.nan])
    np.testing.assert_allclose(q_two, [0.005, 0.9, 0.9])
    np.testing.assert_array_equal(on_one, [True, True, False])


def test_detect_leans_smallest_lean_is_the_null() -> None:
    table = crowd()
    loose, strict = lean(table, least=0.0), lean(table, least=0.5)
    assert (strict.annotators["p_value"].to_numpy() >= loose.annotators["p_value"].to_numpy() - 1e-12).all()
    assert lean(table, least=5.0).flagged == []


def test_detect_leans_beside_position() -> None:
    found = detect_leans(Comparisons.from_frame(crowd()), ["length"], gold="gold", placebos=0)
    assert list(found) == ["position", "length"]


def test_detect_leans_gold_on_one_side_and_features_fixed_by_gold_are_refused() -> None:
    table = crowd()
    with pytest.raises(InputError, match=r"the better item stands left in all but 0\.0%"):
        lean(table[table["gold"] == "left"])
    z = np.where(table["gold"] == "left", 1.0, -1.0)
    with pytest.raises(InputError, match="length is fixed by gold: its item is the better one"):
        lean(table.assign(x_length=z * (1 + table.index % 3)))
    with pytest.raises(InputError, match="fixed by gold and the other features"):
        lean(table.assign(x_twice=2 * np.tanh(np.log(table["chars_left"] / table["chars_right"]))), "length", "twice")
    with pytest.raises(InputError, match="no judged answer has a better item"):
        lean(table.assign(gold=None))


def test_detect_leans_who_has_too_few_answers_with_gold_is_not_judged() -> None:
    table = crowd()
    table.loc[(table["annotator"] == 0) & (table.index % 20 > 0), "gold"] = None
    row = lean(table).annotators.set_index("annotator").loc[0]
    assert np.isnan(row["p_value"])
    assert row["finding"].startswith("not judged")
    assert not row["flagged"]


def test_detect_leans_options_out_of_range_are_refused() -> None:
    for options in ({"scope": "some"}, {"q": 1.0}, {"least": -0.1}, {"reference": [1]}):
        with pytest.raises(ConfigurationError):
            lean(crowd(20), **options)


def test_features_are_read_from_files_on_request(tmp_path: Any) -> None:
    table, path = crowd(20), tmp_path / "answers.csv"
    table.to_csv(path, index=False)
    assert Comparisons.from_file(path).features is None
    for mapping in (None, {"annotator": "annotator", "outcome": "outcome"}):
        read = Comparisons.from_file(path, features=True, mapping=mapping)
        assert read.features is not None
        assert set(read.features) == {"gold", "chars_left", "chars_right"}
