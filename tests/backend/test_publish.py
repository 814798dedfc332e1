"""Publishing against an in-memory Label Studio: only differences, complete after a kill at any point."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evenhand.domain import Batch, Comparison, Review
from evenhand.ingest.pull import pull_project
from evenhand.ingest.reviews import take_reviews
from evenhand.label_studio.payloads import data_fields
from evenhand.label_studio.transport import LabelStudioUnreachableError
from evenhand.project_config import parse_config
from evenhand.publish import publish_project
from evenhand.publish.alerts import Card
from evenhand.publish.tabs import MOST_TABS, RELABEL, TITLE, relabel_tab, title_of

from harness.fake_label_studio import URL
from tests.backend.publishing import ALL, NOW, World, pairs_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield from pairs_world(tmp_path)


SCORES = {"item 0": 0.9, "item 1": 0.1, "item 2": 0.6, "item 3": 0.2, "item 4": -0.9}


def test_everything_switched_off_writes_nothing(world: World) -> None:
    world.store.projects.set_config(world.project.id, parse_config({}))
    world.run(SCORES, {"2": 0.5})
    assert world.publish().written == {}
    assert world.writes() == 0


def test_tab_of_tasks_to_label_anew_is_made_once_and_outlives_publishing(world: World) -> None:
    assert relabel_tab(world.client, world.project, [3, 1]) == 2
    assert relabel_tab(world.client, world.project, [1]) == 1
    world.run(SCORES, {"2": 0.5})
    world.publish()
    views = [view["data"] for view in world.client.views(world.project.ls_project_id)]
    (ours,) = [data for data in views if data["title"] == RELABEL]
    assert [one["value"] for one in ours["filters"]["items"]] == [1]
    assert views[0]["title"] == "Default"


def test_no_run_yet_writes_nothing(world: World) -> None:
    assert world.publish().written == {}
    assert world.writes() == 0


def test_winner_on_completed_tasks_and_nothing_on_open_ones(world: World) -> None:
    world.run(SCORES, {})
    assert world.publish().written == {"predictions_created": 3}
    assert world.winners() == {1: "left", 2: "right", 3: "left"}


def test_second_call_looks_and_writes_nothing(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    world.publish()  # the alerts project is known now
    world.server.calls.clear()
    assert world.publish().written == {}
    assert world.writes() == 0
    assert len(world.server.calls) <= 2  # are tab and alerts project still there?


def test_new_run_with_nearly_the_same_scores_writes_nothing(world: World) -> None:
    world.run(SCORES, {})
    world.publish()
    world.run({key: score * 0.99 for key, score in SCORES.items()}, {})
    before = world.writes()
    assert world.publish().written == {}
    assert world.writes() == before


def test_changed_winner_is_the_only_write(world: World) -> None:
    world.run(SCORES, {})
    world.publish()
    world.run({**SCORES, "item 0": -0.9}, {})
    assert world.publish().written == {"predictions_updated": 1}
    assert world.winners() == {1: "right", 2: "right", 3: "left"}


def test_reopened_task_loses_its_winner_even_if_no_pull_saw_it(world: World) -> None:
    world.run(SCORES, {})
    world.publish()
    world.server.tasks[2]["is_labeled"] = False
    world.run({**SCORES, "item 0": -0.9}, {})
    world.publish()
    assert 2 not in world.winners()


def test_deleted_annotation_reopens_the_task_and_takes_the_winner_back(world: World) -> None:
    world.run(SCORES, {})
    world.publish()
    world.server.delete_annotation(1)
    world.pull()
    assert world.publish().written == {"predictions_removed": 1}
    assert 1 not in world.winners()


def test_completed_task_gets_its_winner_without_a_new_run(world: World) -> None:
    world.run(SCORES, {})
    world.publish()
    world.server.annotate(4, 3, "left")
    world.pull()
    world.publish()
    assert world.winners()[4] == "left"


def test_predictions_of_other_models_stay(world: World) -> None:
    other = [{"task": 1, "result": [], "score": 0.5, "model_version": "judge-7"}]
    world.client.import_predictions(1, other)
    world.run(SCORES, {})
    world.publish()
    world.configure()
    world.publish()
    assert [entry["model_version"] for entry in world.server.predictions.values()] == ["judge-7"]


def test_switching_predictions_off_withdraws_ours(world: World) -> None:
    world.run(SCORES, {})
    world.publish()
    world.configure()
    world.publish()
    assert world.server.predictions == {}
    world.server.calls.clear()
    world.publish()
    assert world.server.calls == []


def shown(tab: dict[str, Any]) -> list[int]:
    """The values of a tab's filters."""
    return [item["value"] for item in tab["data"]["filters"]["items"]]


def test_tab_of_each_flagged_annotator_lists_the_heaviest_tasks(world: World) -> None:
    world.run(SCORES, {"3": 0.5, "2": 0.4})
    world.store.projects.set_config(world.project.id, parse_config({"publish": ALL, "review_tasks": 2}))
    world.publish()
    tabs = {tab["data"]["title"]: tab["data"]["filters"] for tab in world.tabs()}
    assert sorted(tabs) == [title_of("Ann"), title_of("bob@example.com")]
    # Both answered left; that weighs most where the right item is better, then where they are closest.
    assert {filters["conjunction"] for filters in tabs.values()} == {"or"}
    assert [shown(tab) for tab in world.tabs()] == [[2, 3], [2, 3]]
    assert world.titles() == ["Default", *tabs]


def test_columns_say_whose_answer_the_consensus_and_the_weight_only_where_asked_for(world: World) -> None:
    before = {number: dict(task["data"]) for number, task in world.server.tasks.items()}
    world.run(SCORES, {"3": 0.5, "2": 0.4})
    world.configure(tab=True)
    world.publish()
    assert world.columns() == {}
    world.store.projects.set_config(
        world.project.id, parse_config({"publish": {"tab": True, "columns": True}, "review_tasks": 2})
    )
    assert world.publish().written["tasks_with_columns"] == 2
    told = world.columns()
    assert told[2][0] in ("Ann: left; bob@example.com: left", "bob@example.com: left; Ann: left")
    assert told[2][1].startswith("right ")
    assert [told[number][2] for number in (2, 3)] == sorted((row[2] for row in told.values()), reverse=True)
    (view, _) = world.tabs()
    assert view["data"]["ordering"] == ["-tasks:data.evenhand_weight"]
    assert "tasks:annotators" in view["data"]["hiddenColumns"]["explore"]
    assert "tasks:data.evenhand_answer" not in view["data"]["hiddenColumns"]["explore"]
    assert world.publish().written == {}
    assert data_fields([world.server.tasks[2]]) == set(before[2])  # they are no fields of the project's tasks

    world.run(SCORES, {"2": 0.4})  # Bob is no longer listed
    world.publish()
    assert {row[0] for row in world.columns().values()} == {"Ann: left"}
    world.run(SCORES, {})
    world.publish()
    assert {number: task["data"] for number, task in world.server.tasks.items() if number in before} == before


def test_tab_is_one_for_all_where_the_flagged_are_many(world: World) -> None:
    many = {str(number): 0.5 for number in range(2, MOST_TABS + 3)}
    world.run(SCORES, many)
    world.publish()
    (tab,) = world.tabs()
    assert tab["data"]["title"] == TITLE
    assert shown(tab) == sorted(map(int, many))  # one scalar each: a list would break Label Studio's listing


def test_tab_follows_the_flags_and_goes_with_the_last_one(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    world.run(SCORES, {"3": 0.5})
    written = world.publish().written
    assert (written["tabs_created"], written["tabs_removed"]) == (1, 1)
    assert world.titles() == ["Default", title_of("bob@example.com")]
    world.run(SCORES, {})
    world.publish()
    assert world.tabs() == []
    assert world.titles() == ["Default"]


def test_tab_and_alerts_project_deleted_by_hand_are_made_again(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    world.server.views.clear()
    del world.server.projects[world.alerts().ls_project_id]
    world.publish()
    assert len(world.tabs()) == 1
    assert list(world.cards()) == ["2"]


def test_dismissed_annotator_leaves_the_tabs(world: World) -> None:
    world.run(SCORES, {"2": 0.5, "3": 0.5})
    world.publish()
    world.store.decisions.add(world.project.id, "2", "dismiss", author="lead")
    world.publish()
    assert world.titles() == ["Default", title_of("bob@example.com")]


def test_alerts_project_is_marked_as_ours_and_never_a_comparison_project(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    assert world.publish().written["cards_created"] == 1
    alerts = world.alerts()
    assert (alerts.kind, alerts.alerts_for) == ("alerts", world.project.id)
    assert [p.id for p in world.store.projects.all()] == [world.project.id]
    assert publish_project(world.store, world.client, alerts, now=NOW).written == {}


def test_card_shows_name_and_calm_words_escaped(world: World) -> None:
    world.run(SCORES, {"2": 0.5, "4": 0.4})
    world.server.annotate(1, 4, "left")
    world.pull()
    world.publish()
    cards = world.cards()
    assert cards["2"]["data"]["annotator"] == "Ann"
    assert "Ann: leans left" in cards["2"]["data"]["card"]
    assert "40: 35 left, 5 right" in cards["2"]["data"]["card"]
    assert "&lt;b&gt;Cat&lt;/b&gt;" in cards["4"]["data"]["card"]
    assert "<b>Cat" not in cards["4"]["data"]["card"]
    assert 'href="http://evenhand.test:9090/ui/projects/1/annotator?id=2"' in cards["2"]["data"]["card"]


def test_alerts_project_events_are_sent_here_with_the_secret(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    (hook,) = (w for w in world.server.webhooks.values() if w["project"] == world.alerts().ls_project_id)
    assert hook["url"] == "http://evenhand.test:9090/webhook"
    assert hook["headers"] == {"X-Evenhand-Secret": "s3cret"}


def test_card_shows_pairs_that_weigh_most_and_what_others_did(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    rows = [row for row in world.store.comparisons.of_annotator(world.project.id, "2") if row["status"] == "answer"]
    first = Comparison(**{key: value for key, value in rows[0].items() if key in Comparison.__dataclass_fields__})
    changed = replace(first, digest="other", outcome=-(first.outcome or 0), updated_at=first.updated_at + 9)
    world.store.comparisons.apply(world.project.id, Batch(comparisons=[replace(changed, updated_by="3")]))
    world.publish()
    page = world.cards()["2"]["data"]["card"]
    assert "1 answer was edited later, 1 of them left (1 not by the annotator); by bob@example.com" in page
    assert "chose left, where the consensus is" in page
    assert "<br>left: " in page
    assert f'href="{URL}/projects/1/data?task=' in page


def test_card_shows_the_texts_that_annotators_saw_where_items_are_named_by_ids(world: World) -> None:
    for number, task in world.server.tasks.items():
        task["data"].update(id1=f"model {number}", id2="model 0")
    world.store.projects.set_config(world.project.id, world.config(item_left="id1", item_right="id2"))
    world.pull()
    world.run({}, {"2": 0.5})
    assert world.publish().written["cards_created"] == 1
    assert "<br>left: item " in world.cards()["2"]["data"]["card"]


def test_warning_says_to_which_side(world: World) -> None:
    left, right = (Card(1, "Pairs", "2", "Ann", "", {side: 9}, "", 0.0, is_warning=True) for side in ("left", "right"))
    assert left.words == "early warning of a lean to the left"
    assert right.words == "early warning of a lean to the right"


def test_tab_shows_answers_and_consensus(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    (tab,) = world.tabs()
    hidden = tab["data"]["hiddenColumns"]["explore"]
    assert {"tasks:annotations_results", "tasks:predictions_results", "tasks:predictions_score"}.isdisjoint(hidden)


def test_list_of_cards_hides_the_pages_code_and_our_keys(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    world.run(SCORES, {"2": 0.6})
    world.publish()
    (view,) = (v for v in world.server.views.values() if v["project"] == world.alerts().ls_project_id)
    assert {"tasks:data.card", "tasks:data.evenhand_annotator"} <= set(view["data"]["hiddenColumns"]["explore"])


def test_pseudonyms_hide_names_and_ids_and_leave_the_tab_out(world: World) -> None:
    world.configure(**ALL, pseudonyms=True)
    world.run(SCORES, {"2": 0.5})
    world.publish()
    assert world.tabs() == []
    ((name, card),) = world.cards().items()
    assert name.startswith("annotator-")
    text = str(card["data"])
    assert "Ann" not in text
    assert "ann@example.com" not in text


def answer(world: World, card: dict[str, Any], choice: str, comment: str = "") -> dict[str, Any]:
    result: list[dict[str, Any]] = [{"from_name": "decision", "type": "choices", "value": {"choices": [choice]}}]
    if comment:
        result.append({"from_name": "comment", "type": "textarea", "value": {"text": [comment]}})
    return world.server.annotations[world.server.annotate(card["id"], 3, result)]


@pytest.mark.parametrize("pseudonyms", [False, True])
def test_decision_comes_back_by_pull_once_with_the_reviewers_name(world: World, pseudonyms: bool) -> None:
    world.configure(**ALL, pseudonyms=pseudonyms)
    world.run(SCORES, {"2": 0.5})
    world.publish()
    (card,) = world.cards().values()
    answer(world, card, "Confirm", "clear case")
    report = pull_project(world.store, world.client, world.alerts(), full=False)
    assert report.decisions == 1
    assert pull_project(world.store, world.client, world.alerts(), full=False).decisions == 0
    (decision,) = world.store.decisions.page(world.project.id).rows
    assert (decision["annotator_id"], decision["decision"]) == ("2", "confirm")
    assert (decision["author"], decision["comment"]) == ("bob@example.com", "clear case")


def test_decision_invented_by_an_earlier_event_is_withdrawn_by_the_pull(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    answer(world, world.cards()["2"], "Confirm")
    pull_project(world.store, world.client, world.alerts(), full=False)
    key = f"label-studio:{world.alerts().id}:999:253402300799.000000"
    world.store.decisions.add_review(Review(world.project.id, "2", "dismiss", "", "bob", key, 253402300799.0))
    assert world.store.decisions.current(world.project.id)["2"].decision == "dismiss"
    report = pull_project(world.store, world.client, world.alerts(), full=False)
    assert (report.decisions, report.decisions_withdrawn) == (0, 1)
    assert world.store.decisions.current(world.project.id)["2"].decision == "confirm"
    assert "decision_withdrawn" in {problem.code for problem in world.store.problems.find(world.project.id)}
    assert world.store.decisions.verify(world.project.id).intact
    assert pull_project(world.store, world.client, world.alerts(), full=False).decisions_withdrawn == 0


def name_reviewers(world: World, *names: str) -> None:
    config = world.store.projects.get(world.project.id).config
    world.store.projects.set_config(world.project.id, parse_config({"reviewers": list(names)}, base=config))


def test_decision_about_oneself_or_by_a_stranger_to_the_list_is_refused_and_told(world: World) -> None:
    world.run(SCORES, {"2": 0.5, "3": 0.5})
    world.publish()
    answer(world, world.cards()["3"], "Dismiss")
    report = pull_project(world.store, world.client, world.alerts(), full=False)
    assert (report.decisions, report.decisions_refused) == (0, 1)
    name_reviewers(world, "nobody@example.com")
    answer(world, world.cards()["2"], "Dismiss")
    report = pull_project(world.store, world.client, world.alerts(), full=False)
    assert (report.decisions, report.decisions_refused) == (0, 2)
    (problem,) = [one for one in world.store.problems.find(world.project.id) if one.code == "decision_refused"]
    assert "themselves" in problem.message or "own answers" in problem.message
    name_reviewers(world, "bob@example.com")
    assert pull_project(world.store, world.client, world.alerts(), full=False).decisions == 1
    assert list(world.store.decisions.current(world.project.id)) == ["2"]


def test_changed_mind_is_a_second_decision(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    annotation = answer(world, world.cards()["2"], "Watch")
    pull_project(world.store, world.client, world.alerts(), full=False)
    annotation["result"][0]["value"]["choices"] = ["Confirm"]
    annotation["updated_at"] = "2026-06-01T00:00:00.000000Z"
    pull_project(world.store, world.client, world.alerts(), full=False)
    assert world.store.decisions.current(world.project.id)["2"].decision == "confirm"
    assert world.store.decisions.page(world.project.id).total == 2


@pytest.mark.parametrize(
    "change", [{"evenhand_project": 99}, {"evenhand_annotator": "nobody"}, {"evenhand_project": []}]
)
def test_card_pointing_elsewhere_is_no_decision(world: World, change: dict[str, Any]) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    card = world.cards()["2"]
    annotation = answer(world, card, "Confirm")
    tampered = {**card, "data": {**card["data"], **change}}
    assert take_reviews(world.store, world.alerts(), [(annotation, tampered)], {}).recorded == 0


def test_card_without_answer_goes_with_the_flag_and_an_answered_one_stays(world: World) -> None:
    world.run(SCORES, {"2": 0.5, "3": 0.5})
    world.publish()
    answer(world, world.cards()["2"], "Confirm")
    world.run(SCORES, {})
    written = world.publish().written
    assert (written["cards_removed"], written["cards_retired"]) == (1, 1)
    assert list(world.cards()) == ["2"]
    assert world.cards()["2"]["data"]["finding"] == "no longer on the list"


def test_alerts_project_deleted_by_hand_is_made_anew(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.publish()
    del world.server.projects[world.alerts().ls_project_id]
    world.run(SCORES, {"2": 0.6})
    world.publish()
    assert list(world.cards()) == ["2"]


@pytest.mark.parametrize(
    ("method", "pattern"),
    [
        ("POST", "import/predictions"),
        ("POST", "/api/dm/views/"),
        ("POST", "/api/projects/$"),
        ("POST", r"/api/projects/\d+/import$"),
        ("POST", "/api/webhooks/"),
        ("GET", "/api/tasks$"),
        ("GET", "/api/predictions/"),
    ],
)
@pytest.mark.parametrize("after", [0, 1])
def test_label_studio_lost_at_any_step_is_completed_by_a_later_call(
    world: World, method: str, pattern: str, after: int
) -> None:
    world.run(SCORES, {"2": 0.5, "3": 0.4})
    world.server.fail_when(method, pattern, after=after)
    with pytest.raises(LabelStudioUnreachableError) if after == 0 else suppress(LabelStudioUnreachableError):
        world.publish()
    world.server.judges.clear()
    world.publish(NOW + 40.0)
    assert world.winners() == {1: "left", 2: "right", 3: "left"}
    assert len(world.tabs()) == 2
    assert sorted(world.cards()) == ["2", "3"]
    assert len(world.server.projects) == 2
    world.publish(NOW + 80.0)
    world.server.calls.clear()
    world.publish(NOW + 120.0)
    assert world.writes() == 0


class Killed(BaseException):
    """Stands for kill -9: nothing of ours runs after it."""


@pytest.mark.parametrize("step", range(15))
def test_killed_after_any_call_is_completed_by_the_next_process(
    world: World, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(SCORES, {"2": 0.5, "3": 0.4})
    send, calls = world.server.send, [0]

    def killing(*args: Any, **options: Any) -> Any:
        answered = send(*args, **options)
        calls[0] += 1
        if calls[0] == step + 1:
            raise Killed
        return answered

    monkeypatch.setattr(world.server, "send", killing)
    with pytest.raises(Killed):
        world.publish()
    monkeypatch.setattr(world.server, "send", send)
    world.publish()
    assert world.winners() == {1: "left", 2: "right", 3: "left"}
    assert len(world.tabs()) == 2
    assert sorted(world.cards()) == ["2", "3"]
    assert len(world.server.projects) == 2
    hooks = [w for w in world.server.webhooks.values() if w["project"] == world.alerts().ls_project_id]
    assert len(hooks) == 1


def test_failed_channel_waits_longer_each_time_and_does_not_hold_up_the_others(world: World) -> None:
    world.run(SCORES, {"2": 0.5})
    world.server.fail_when("GET", "/api/predictions/")
    with pytest.raises(LabelStudioUnreachableError):
        world.publish(NOW)
    assert len(world.tabs()) == 1
    assert world.publish(NOW + 29.0).waiting == ("predictions",)
    with pytest.raises(LabelStudioUnreachableError):
        world.publish(NOW + 31.0)
    assert world.publish(NOW + 31.0 + 59.0).waiting == ("predictions",)
    world.server.judges.clear()
    assert world.publish(NOW + 31.0 + 61.0).written == {"predictions_created": 3}


def test_tabs_of_people_with_the_same_name_stay_apart(world: World) -> None:
    world.configure(tab=True)
    names = {"2": ("Ann", None), "3": ("Ann (4)", None), "4": ("Ann", None)}
    world.store.annotators.name(world.project.id, names, insert=True)
    world.run(SCORES, dict.fromkeys(names, 0.5))
    world.publish()
    titles = {view["data"]["title"] for view in world.tabs()}
    assert titles == {title_of("Ann"), title_of("Ann (4)"), title_of("Ann (4) (4)")}
