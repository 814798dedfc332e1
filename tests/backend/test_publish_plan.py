"""Which predictions are written, and what a card says: pure parts of publishing."""

from typing import Any

import pytest
from evenhand.domain import CHOICES
from evenhand.label_studio.payloads import ALERT_ANNOTATOR, ALERT_PROJECT
from evenhand.pseudonyms import pseudonym, resolve
from evenhand.publish.alerts import LABEL_CONFIG, Card, card_data, card_html
from evenhand.publish.predictions import make_plan

from fdr_core.report.words import flag_words

Json = dict[str, Any]


def wanted(side: str | None, score: float = 0.8) -> Json:
    if side is None:
        return {"result": [], "score": 0.0}
    return {"result": [{"from_name": "pw", "to_name": "left", "value": {"selected": side}}], "score": score}


def stored(number: int, task: int, side: str | None, score: float = 0.8, version: str = "evenhand-1") -> Json:
    return {"id": number, "task": task, "model_version": version, **wanted(side, score)}


def test_plan_nothing_there_creates_all_under_the_current_version() -> None:
    plan = make_plan([], {1: wanted("left"), 2: wanted(None)}, None, "evenhand-7")
    assert [(entry["task"], entry["model_version"]) for entry in plan.create] == [(1, "evenhand-7"), (2, "evenhand-7")]
    assert (plan.update, plan.delete, plan.drop_versions) == ({}, [], [])


def test_plan_same_answers_and_near_scores_is_empty_although_the_run_is_new() -> None:
    existing = [stored(1, 1, "left", 0.80), stored(2, 2, None)]
    plan = make_plan(existing, {1: wanted("left", 0.83), 2: wanted(None)}, "evenhand-1", "evenhand-2")
    assert (plan.create, plan.update, plan.delete, plan.drop_versions) == ([], {}, [], [])
    assert plan.version == "evenhand-1"


@pytest.mark.parametrize("now", [wanted("right", 0.8), wanted("left", 0.9)])
def test_plan_another_winner_or_a_moved_score_is_updated_in_place(now: Json) -> None:
    plan = make_plan([stored(5, 1, "left", 0.8)], {1: now}, "evenhand-1", "evenhand-2")
    assert plan.update == {5: {"result": now["result"], "score": now["score"]}}
    assert plan.create == []


def test_plan_reopened_task_loses_its_winner_before_anything_else_is_written() -> None:
    existing = [stored(1, 1, "left"), stored(2, 2, "left")]
    plan = make_plan(existing, {1: wanted("right"), 2: wanted(None)}, "evenhand-1", "evenhand-1")
    assert list(plan.update) == [2, 1]


def test_plan_duplicates_and_tasks_gone_are_deleted() -> None:
    existing = [stored(1, 1, "right"), stored(2, 1, "left"), stored(3, 9, "left")]
    plan = make_plan(existing, {1: wanted("left")}, "evenhand-1", "evenhand-1")
    assert sorted(plan.delete) == [1, 3]
    assert plan.update == {}


def test_plan_predictions_of_other_models_are_left_alone() -> None:
    existing = [stored(1, 1, "left", version="gpt-judge"), {**stored(2, 1, "left"), "model_version": None}]
    plan = make_plan(existing, {1: wanted("left")}, None, "evenhand-2")
    assert plan.delete == []
    assert plan.drop_versions == []


def test_plan_older_versions_of_ours_are_dropped() -> None:
    existing = [stored(1, 1, "left", version="evenhand-1"), stored(2, 1, "left", version="evenhand-2")]
    plan = make_plan(existing, {1: wanted("left")}, "evenhand-2", "evenhand-3")
    assert plan.drop_versions == ["evenhand-1"]
    assert (plan.create, plan.update, plan.version) == ([], {}, "evenhand-2")


def test_plan_many_changes_replace_all_under_the_new_version() -> None:
    existing = [stored(i, i, "left") for i in range(150)]
    plan = make_plan(existing, {i: wanted("right") for i in range(150)}, "evenhand-1", "evenhand-2")
    assert plan.version == "evenhand-2"
    assert len(plan.create) == 150
    assert plan.drop_versions == ["evenhand-1"]


@pytest.mark.parametrize(("tasks", "few"), [(200, 100), (1000, 250), (5000, 1000)])
def test_plan_counts_updates_and_deletions_together_as_changes(tasks: int, few: int) -> None:
    """At most a hundred, or a quarter of the tasks, and never more than a thousand are changed one by one."""
    desired = {i: wanted("left") for i in range(tasks)}
    gone = [stored(tasks + i, tasks + i, "left") for i in range(few // 2)]
    for changed, version in ((few - few // 2, "evenhand-1"), (few - few // 2 + 1, "evenhand-2")):
        existing = [stored(i, i, "right" if i < changed else "left") for i in range(tasks)]
        plan = make_plan([*existing, *gone], desired, "evenhand-1", "evenhand-2")
        assert plan.version == version


def test_plan_score_that_moved_by_a_whole_step_is_written_again() -> None:
    plan = make_plan([stored(5, 1, "left", 0.0)], {1: wanted("left", 0.05)}, "evenhand-1", "evenhand-1")
    assert list(plan.update) == [5]


def test_plan_prediction_without_a_score_or_a_result_is_read_as_empty() -> None:
    existing = [{**stored(5, 1, None), "score": None, "result": None}]
    assert make_plan(existing, {1: wanted(None)}, "evenhand-1", "evenhand-1").update == {}


def test_plan_resumed_after_a_kill_writes_only_what_is_missing() -> None:
    desired = {i: wanted("right") for i in range(150)}
    half = [stored(i, i, "right", version="evenhand-2") for i in range(70)]
    plan = make_plan(half, desired, "evenhand-2", "evenhand-2")
    assert sorted(entry["task"] for entry in plan.create) == list(range(70, 150))
    assert plan.update == {}


def card(**changes: Any) -> Card:
    evidence = {
        "comparisons": 120, "left": 90, "right": 28, "ties": 2, "bias": 0.41, "bias_low": 0.3, "bias_high": 0.52,
        "q_value": 0.0123, "lbi_share": 0.98, "match_ratio": 0.61, "longest_run": 14, "median_lead_time": 1.25,
    }  # fmt: skip
    values: Json = {
        "project_id": 3,
        "project_title": "Pairs",
        "annotator": "17",
        "name": "Ada",
        "finding": "leans left",
        "evidence": evidence,
        "guarantee": "Of such lists about 1 in 10 entries is wrong.",
        "since": 0.0,
    }
    return Card(**{**values, **changes})


def test_card_shows_counts_lean_interval_both_methods_and_what_the_list_promises() -> None:
    html = card_html(card())
    for text in ("120: 90 left, 28 right, 2 ties", "0.41 to the left", "0.30 to 0.52", "98 %", "61 %", "14 answers"):
        assert text in html
    assert "adjusted p-value 0.0123" in html
    assert "Of such lists about 1 in 10 entries is wrong." in html


def test_card_of_a_lean_to_the_right_turns_the_interval_round() -> None:
    html = card_html(card(evidence={"bias": -0.4, "bias_low": -0.5, "bias_high": -0.3}))
    assert "0.40 to the right" in html
    assert "0.30 to 0.50" in html


def test_card_with_markup_in_names_shows_it_as_text() -> None:
    html = card_html(card(name="<script>x</script>", project_title='"><img src=x>', link='http://e/"><script>'))
    assert "<script>" not in html
    assert "<img" not in html
    assert "&lt;script&gt;x&lt;/script&gt;" in html


@pytest.mark.parametrize("evidence", [{}, {"bias": float("nan"), "comparisons": None, "lbi_share": "x", "left": True}])
def test_card_without_usable_evidence_is_still_a_page(evidence: Json) -> None:
    data = card_data(card(evidence=evidence))
    assert data["lean"] == ""
    assert "Estimated lean" not in data["card"]


@pytest.mark.parametrize("words", ["left side only", "leans right", "always one side"])
def test_card_title_and_column_hold_the_finding(words: str) -> None:
    data = card_data(card(finding=words))
    assert data["finding"] == words
    assert f"Ada: {words}" in data["card"]


def test_card_data_carries_what_brings_the_decision_back() -> None:
    data = card_data(card())
    assert data[ALERT_PROJECT] == 3
    assert data[ALERT_ANNOTATOR] == "17"


def test_label_config_offers_every_decision_the_protocol_reads() -> None:
    for choice in CHOICES:
        assert f'value="{choice.capitalize()}"' in LABEL_CONFIG


def test_pseudonym_is_stable_per_project_and_key_and_resolves() -> None:
    name = pseudonym("key", 1, "17")
    assert name == pseudonym("key", 1, "17")
    assert name not in {pseudonym("key", 2, "17"), pseudonym("other", 1, "17"), pseudonym("key", 1, "18")}
    assert resolve("key", 1, name, ["3", "17", "4"]) == "17"
    assert resolve("key", 1, "annotator-xxxx-xxxx", ["3", "17"]) is None


def test_lasting_flag_off_the_latest_list_says_so_instead_of_a_finding() -> None:
    flag = {"finding": "no lean seen", "evidence": {"flagged": False}}
    assert flag_words(flag) == "lasting flag, not on the latest list"
    assert flag_words({"finding": "leans left", "evidence": {"flagged": True}}) == "leans left"
