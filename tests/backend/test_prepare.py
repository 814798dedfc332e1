"""Prepared tasks: coins decide sides, everything of a side moves together, and the core reads the result back."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evenhand.domain import Batch, Project, Task, Trigger
from evenhand.server.worker import Runs
from evenhand.store import Store

from fdr_core import Comparisons, ConfigurationError, InputError
from fdr_core.commands.prepare import GROUP, Pairs, label_config, read_pairs, write_prepared
from fdr_core.commands.prepare import prepared as prepare
from fdr_core.inputs.item_keys import drawn_coin
from fdr_core.inputs.label_studio.reading import PREPARED_COIN as COIN
from fdr_core.inputs.label_studio.setup import parse_label_config
from harness.filled import answer


def rng() -> np.random.Generator:
    """A seeded generator."""
    return np.random.default_rng(0)


def write(path: Path, text: str) -> Path:
    """Write a file and give its path."""
    path.write_text(text, encoding="utf-8")
    return path


def many(n: int = 400) -> Pairs:
    """Pairs with a name and a text per side."""
    rows = tuple(
        {"left": f"a{k}", "right": f"b{k}", "left_text": f"text a{k}", "right_text": f"text b{k}", "prompt": f"p{k}"}
        for k in range(n)
    )
    return Pairs(rows, "left", "right", (("left", "right"), ("left_text", "right_text")))


def test_prepare_sides_are_fair_coins_and_fields_move_together() -> None:
    prepared = prepare(many(), seed=7)
    data = [task["data"] for task in prepared.tasks]
    swapped = [row["left"].startswith("b") for row in data]
    assert 160 < sum(swapped) < 240
    assert all(row["left_text"] == f"text {row['left']}" for row in data)
    assert all(row["right_text"] == f"text {row['right']}" for row in data)
    assert [row["prompt"] for row in data] == [f"p{k}" for k in range(400)]
    assert len({row[COIN] for row in data}) == 400


def test_prepare_same_seed_same_tasks_and_another_seed_other_coins() -> None:
    one, two, other = prepare(many(), seed=7), prepare(many(), seed=7), prepare(many(), seed=8)
    assert one.tasks == two.tasks
    assert {t["data"][COIN] for t in one.tasks}.isdisjoint({t["data"][COIN] for t in other.tasks})


def test_prepare_both_orders_share_one_coin() -> None:
    prepared = prepare(many(50), seed=1, both_orders=True)
    by_coin: dict[str, list[str]] = {}
    for task in prepared.tasks:
        by_coin.setdefault(task["data"][COIN], []).append(task["data"]["left"])
    assert len(prepared.tasks) == 100
    assert all(sorted(label[0] for label in lefts) == ["a", "b"] for lefts in by_coin.values())


def test_prepare_for_groups_gives_each_a_coin_of_its_own_for_every_pair() -> None:
    tasks = [task["data"] for task in prepare(many(), seed=3, groups=2).tasks]
    by_pair: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        by_pair.setdefault(task["prompt"], []).append(task)
    assert all([task[GROUP] for task in both] == [1, 2] for both in by_pair.values())
    assert len({task[COIN] for task in tasks}) == 800
    in_both_orders = sum(one["left"] != two["left"] for one, two in by_pair.values())
    assert 160 < in_both_orders < 240
    result = [{"from_name": "preference", "type": "pairwise", "value": {"selected": "left"}}]
    answered = [
        {"id": k, "data": task, "annotations": [{"completed_by": task[GROUP], "result": result}]}
        for k, task in enumerate(tasks)
    ]
    assert Comparisons.from_label_studio(answered).coin_source == "coin"


def test_prepare_record_repeats_the_coins(tmp_path: Path) -> None:
    prepared = prepare(many(3), seed=5)
    written = write_prepared(prepared, tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["tasks.json", "label_config.xml", "coins.json"]
    record = json.loads(written[2].read_text(encoding="utf-8"))
    assert (record["seed"], record["pairs"], record["coin"]) == (5, 3, COIN)
    shown = [(row["data"]["left"], row["data"][COIN]) for row in json.loads(written[0].read_text(encoding="utf-8"))]
    assert [(coin["left"], coin["coin"]) for coin in record["coins"]] == shown


def test_prepared_tasks_once_answered_are_read_with_their_coins() -> None:
    tasks = prepare(many(4), seed=5, both_orders=True).tasks
    result = [{"from_name": "preference", "type": "pairwise", "value": {"selected": "left"}}]
    answered = [
        {"id": k, **task, "annotations": [{"completed_by": 1, "result": result}]} for k, task in enumerate(tasks)
    ]
    c = Comparisons.from_label_studio(answered)
    assert (c.coin_source, len(set(c.coin.tolist())), c.n_items) == ("coin", 4, 8)


def test_prepared_tasks_whose_items_were_moved_are_an_error_that_names_them() -> None:
    given = [{"completed_by": 1, "result": [{"from_name": "p", "type": "pairwise", "value": {"selected": "left"}}]}]
    made = prepare(many(4), seed=5).tasks
    tasks = [{"id": 7 + k, "data": task["data"], "annotations": given} for k, task in enumerate(made)]
    Comparisons.from_label_studio(tasks)
    data = tasks[2]["data"]
    data["left"], data["right"] = data["right"], data["left"]
    with pytest.raises(InputError, match="1 tasks show their items on other sides than the seed in their coin does: 9"):
        Comparisons.from_label_studio(tasks)


def test_run_on_tasks_whose_items_were_moved_fails_and_names_them(store: Store, project: Project) -> None:
    coin, is_heads = drawn_coin(5, "key", "a")
    left, right = ("b", "a") if is_heads else ("a", "b")
    given = answer(70, "u1", task=7, left_item=left, right_item=right, coin=coin)
    moved = Task(7, left, right, left, right, coin, None, False, 1.0)
    store.comparisons.apply(project.id, Batch(tasks=[moved], comparisons=[given]))
    run = store.runs.request(project.id, Trigger.MANUAL)
    Runs(store, "me").once()
    assert "tasks 7 show their items on other sides" in (store.runs.get(run.id).error or "")


@pytest.mark.parametrize("ties", [False, True])
def test_label_config_shows_the_texts_and_is_read_by_the_service(ties: bool) -> None:
    xml = label_config(many(2), ties=ties)
    root = ElementTree.fromstring(xml)
    assert [node.get("value") for node in root.iter("Text")] == ["$prompt", "$left_text", "$right_text"]
    assert parse_label_config(xml).controls[0].name == "preference"


def test_label_config_of_image_addresses_shows_images() -> None:
    rows = ({"left": "https://example.org/a.png?x=1", "right": "https://example.org/b.jpg"},)
    assert "<Image" in label_config(Pairs(rows, "left", "right", (("left", "right"),)))


def test_read_pairs_finds_the_columns_of_a_table(tmp_path: Path) -> None:
    pairs = read_pairs(write(tmp_path / "p.csv", 'text1,text2,prompt\n"a, b",c,"two\nlines"\n'), rng=rng())
    assert (pairs.left, pairs.right) == ("text1", "text2")
    assert pairs.rows[0] == {"text1": "a, b", "text2": "c", "prompt": "two\nlines"}


def test_read_pairs_all_pairs_of_a_list(tmp_path: Path) -> None:
    for name, content in (("i.csv", "item\na\nb\nc\na\n"), ("i.txt", "a\nb\n\nc\n")):
        pairs = read_pairs(write(tmp_path / name, content), rng=rng())
        assert [(row["left"], row["right"]) for row in pairs.rows] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_read_pairs_some_pairs_of_a_list_connect_all_items(tmp_path: Path) -> None:
    path = write(tmp_path / "i.txt", "\n".join(f"item{k}" for k in range(50)))
    pairs = read_pairs(path, n_pairs=60, rng=rng())
    chosen = {frozenset((row["left"], row["right"])) for row in pairs.rows}
    assert len(chosen) == 60
    reached = {"item0"}
    for _ in range(50):
        reached |= {item for pair in chosen if pair & reached for item in pair}
    assert len(reached) == 50


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", "", "is empty"),
        ("p.csv", "left,right\n", "no rows below the header"),
        ("p.csv", "left,right\na,a\n", "row 1 compares 'a' with itself"),
        ("p.csv", "left,right\na,b\nc,\n", "row 2 lacks an item"),
        ("p.csv", "left,right\na,b,c\n", "row 1 has 3 fields; expected 2"),
        ("p.csv", "one,big,table\na,b,c\n", "no two columns name the items; found one, big, table"),
        ("p.csv", "left side,right side\na,b\n", "column 'left side' cannot be a field"),
        ("p.csv", "left,right,evenhand_coin\na,b,c\n", "column 'evenhand_coin' cannot be a field"),
        ("i.txt", "only\n", "found 1 distinct items; expected at least two"),
    ],
)
def test_read_pairs_bad_file_is_an_input_error(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_pairs(write(tmp_path / name, content), rng=rng())


def test_read_pairs_more_pairs_than_there_are_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="4 items make 6 pairs and 7 were asked for; expected 1 to 6"):
        read_pairs(write(tmp_path / "i.txt", "a\nb\nc\nd\n"), n_pairs=7, rng=rng())
