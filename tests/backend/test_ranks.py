"""Review tabs worst first: ranks in the tasks' data, only where a project allows it, and nothing else changed there."""

from contextlib import suppress
from typing import Any

import pytest
from evenhand.administer.disconnect import disconnect_project
from evenhand.errors import UnusableValueError
from evenhand.label_studio.review_fields import PREFIX, is_review_field, review_field
from evenhand.label_studio.transport import LabelStudioRejectedError, LabelStudioUnreachableError
from evenhand.project_config import parse_config
from evenhand.projects.reading import resolve
from evenhand.publish import ranks
from evenhand.publish.tab import SUFFIX

from fdr_core.inputs.label_studio.seen import item_fields
from fdr_core.inputs.label_studio.words import one_pair
from harness.label_configs import PAIRWISE
from tests.backend.publishing import NOW, SETTINGS, World
from tests.backend.test_publish import SCORES, Killed
from tests.backend.test_publish import world as world  # the fixture

RANKS = {"tab": True, "ranks": True}
FIRST, SECOND = review_field(1), review_field(2)


def allow(world: World, **publish: bool) -> None:
    """Say what may be published."""
    world.store.projects.set_config(world.project.id, world.config(publish=publish))


def orders(world: World) -> dict[str, list[int]]:
    """The tasks that each of our tabs lists, in its order, by title."""
    session, found = world.server.session(), {}
    session.headers["Authorization"] = f"Token {'f' * 40}"
    for number, view in world.server.views.items():
        params = {"project": str(world.project.ls_project_id), "view": str(number), "page_size": "100"}
        answer = session.get(f"{world.client.url}/api/tasks", params=params)
        found[view["data"]["title"]] = [task["id"] for task in answer.json()["tasks"]]
    return {title: tasks for title, tasks in found.items() if title.endswith(SUFFIX)}


def written(world: World) -> dict[int, dict[str, Any]]:
    """Our fields by task."""
    found = {
        number: {name: value for name, value in task["data"].items() if name.startswith(PREFIX)}
        for number, task in world.server.tasks.items()
        if task["project"] == world.project.ls_project_id
    }
    return {number: fields for number, fields in found.items() if fields}


def without_ours(world: World) -> dict[int, dict[str, Any]]:
    """What else the tasks hold."""
    return {
        number: {name: value for name, value in task["data"].items() if not name.startswith(PREFIX)}
        for number, task in world.server.tasks.items()
    }


def test_tasks_stay_untouched_unless_the_project_allows_it(world: World) -> None:
    allow(world, tab=True)
    assert not parse_config({"publish": "all"}).publish.ranks
    world.run(SCORES, {"2": 0.5})
    world.publish()
    assert written(world) == {}
    assert world.server.count("PATCH", "/api/tasks/") == 0


def test_tab_is_worst_first_and_the_rest_of_the_data_stays(world: World) -> None:
    before = without_ours(world)
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    assert world.publish().written == {"tabs_created": 1, "ranks_written": 3}
    # Left was answered throughout: heaviest where the right item is better; where all agree it says nothing.
    assert orders(world) == {"Ann" + SUFFIX: [2, 3, 1]}
    assert written(world) == {2: {FIRST: 1}, 3: {FIRST: 2}, 1: {FIRST: 3}}
    assert without_ours(world) == before


def test_ranks_are_ordered_as_numbers(world: World) -> None:
    for index in range(8):
        task = world.server.add_task(1, {"text1": f"item {index % 3}", "text2": f"item {index % 3 + 1}"}, overlap=2)
        world.server.annotate(task, 2, "left")
    world.pull()
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    world.publish()
    (order,) = orders(world).values()
    assert len(order) == 11
    assert [world.server.tasks[task]["data"][FIRST] for task in order] == list(range(1, 12))


def test_every_tab_is_worst_first_although_they_share_tasks(world: World) -> None:
    for annotation in [a for a in world.server.annotations.values() if a["completed_by"] == 3]:
        world.server.edit(annotation["id"], "right")
    world.pull()
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5, "3": -0.5})
    world.publish()
    assert orders(world) == {"Ann" + SUFFIX: [2, 3, 1], "bob@example.com" + SUFFIX: [1, 3, 2]}
    assert written(world)[1] == {FIRST: 3, SECOND: 1}
    hidden = {tab["data"]["title"]: tab["data"]["hiddenColumns"]["explore"] for tab in world.tabs()}
    assert f"tasks:data.{SECOND}" in hidden["Ann" + SUFFIX]
    assert f"tasks:data.{FIRST}" not in hidden["Ann" + SUFFIX]


def test_tab_that_stays_keeps_its_field_when_another_goes(world: World) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5, "3": 0.5})
    world.publish()
    world.store.decisions.add(world.project.id, "2", "dismiss", author="lead")
    assert world.publish().written == {"tabs_removed": 1, "tabs_updated": 1, "ranks_written": 3}
    assert set().union(*written(world).values()) == {SECOND}
    world.run(SCORES, {"2": 0.5, "3": 0.5})
    assert world.publish().written == {}


def test_field_is_known_although_somebody_sorted_the_tab_otherwise(world: World) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5, "3": 0.5})
    world.publish()
    for tab in world.tabs():
        tab["data"] = {**tab["data"], "ordering": ["-tasks:id"]}
    world.server.views = dict(reversed(world.server.views.items()))
    assert world.publish().written == {}
    assert set(written(world)[1]) == {FIRST, SECOND}


def test_only_ranks_that_changed_are_written_again(world: World) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    world.publish()
    world.run({**SCORES, "item 0": -0.3}, {"2": 0.5})
    report = world.publish()
    (order,) = orders(world).values()
    assert [world.server.tasks[task]["data"][FIRST] for task in order] == [1, 2, 3]
    assert order != [2, 3, 1]
    assert 0 < report.written["ranks_written"] <= 3


def test_ranks_are_not_read_bring_no_answers_and_end_in_rest(world: World) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    world.publish()
    rows, mark = world.store.comparisons.rows(world.project.id), world.store.projects.get(world.project.id)
    world.pull()
    after = world.store.projects.get(world.project.id)
    assert world.store.comparisons.rows(world.project.id) == rows
    assert world.store.comparisons.changes_since(world.project.id, mark.seq) == []  # so that no run is due
    assert not any(is_review_field(name) for name in after.task_fields)
    world.server.calls.clear()
    assert world.publish().written == {}
    assert world.writes() == 0
    assert len(world.server.calls) == 2  # are tabs and ranks still there?


@pytest.mark.parametrize("how", ["off", "no tab", "pseudonyms", "dismissed", "no flag"])
def test_ranks_go_with_the_tab_or_the_permission(world: World, how: str) -> None:
    before = without_ours(world)
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    world.publish()
    if how == "dismissed":
        world.store.decisions.add(world.project.id, "2", "dismiss", author="lead")
    elif how == "no flag":
        world.run(SCORES, {})
    else:
        allow(world, **{"off": {"tab": True}, "no tab": {"ranks": True}}.get(how, {**RANKS, "pseudonyms": True}))
    assert world.publish().written["ranks_written"] == 3
    assert written(world) == {}
    assert {key: data for key, data in without_ours(world).items() if key in before} == before
    assert len(world.tabs()) == (how == "off")
    assert all(tab["data"]["ordering"] == [] for tab in world.tabs())
    world.server.calls.clear()
    world.publish()
    assert world.writes() == 0


def test_disconnect_looks_for_ranks_only_where_some_were_written(world: World) -> None:
    allow(world, tab=True)
    world.run(SCORES, {"2": 0.5})
    world.publish()
    world.server.refuse("GET", "/api/tasks$")
    options: dict[str, Any] = {"with_alerts": False, "erase": False}
    done = disconnect_project(world.store, world.client, SETTINGS, world.project, **options)
    assert (done.tabs, done.ranks) == (1, 0)


def test_disconnect_takes_the_ranks_out(world: World) -> None:
    before = without_ours(world)
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    world.publish()
    done = disconnect_project(world.store, world.client, SETTINGS, world.project, with_alerts=True, erase=False)
    assert (done.tabs, done.ranks) == (1, 3)
    assert written(world) == {}
    assert without_ours(world) == before


def test_rank_that_somebody_removed_is_written_again(world: World) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    world.publish()
    world.server.tasks[3]["data"] = {"text1": "item 2", "text2": "item 3", "note": "imported anew"}
    assert world.publish().written == {"ranks_written": 1}
    assert world.server.tasks[3]["data"]["note"] == "imported anew"
    assert orders(world) == {"Ann" + SUFFIX: [2, 3, 1]}


def test_change_made_while_ranks_are_written_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    listing = world.client.tasks_with

    def and_then_somebody_changes_a_task(*args: Any) -> Any:
        found = listing(*args)
        world.server.tasks[1]["data"]["note"] = "typed meanwhile"
        world.server.delete_task(3)
        return found

    monkeypatch.setattr(world.client, "tasks_with", and_then_somebody_changes_a_task)
    world.publish()
    assert world.server.tasks[1]["data"] == {
        "text1": "item 0", "text2": "item 1", "note": "typed meanwhile", FIRST: 3
    }  # fmt: skip
    assert sorted(written(world)) == [1, 2]


def test_stored_addresses_are_asked_for_not_those_handed_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    asked: list[str] = []
    send = world.server.send

    def note(request: Any, *args: Any, **options: Any) -> Any:
        asked.append(f"{request.method} {request.url}")
        return send(request, *args, **options)

    monkeypatch.setattr(world.server, "send", note)
    world.publish()
    reads = [line for line in asked if line.startswith("GET") and "/api/tasks" in line]
    assert len(reads) == 4
    assert all("resolve_uri=false" in line for line in reads)
    # One task alone is never asked for: Label Studio answers that after it has asked us for a prediction.
    assert not any("/api/tasks/" in line for line in asked if line.startswith("GET"))


def test_many_ranks_are_written_part_by_part_the_heaviest_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "AT_ONCE", 2)
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    report = world.publish()
    assert (report.written["ranks_written"], report.waiting) == (2, (ranks.CHANNEL,))
    assert written(world) == {2: {FIRST: 1}, 3: {FIRST: 2}}
    report = world.publish()
    assert (report.written, report.waiting) == ({"ranks_written": 1}, ())
    allow(world)
    assert world.publish().waiting == (ranks.CHANNEL,)
    assert world.publish().waiting == ()
    assert written(world) == {}


@pytest.mark.parametrize("after", range(3))
def test_label_studio_lost_while_ranks_are_written_is_completed_later(world: World, after: int) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    world.server.fail_when("PATCH", "/api/tasks/", after=after)
    with suppress(LabelStudioUnreachableError):
        world.publish()
    assert len(world.tabs()) == 1  # not held up
    world.server.judges.clear()
    assert world.publish(NOW + 1.0).waiting == (ranks.CHANNEL,)
    world.publish(NOW + 40.0)
    assert orders(world) == {"Ann" + SUFFIX: [2, 3, 1]}
    assert len(written(world)) == 3


def test_task_that_refuses_its_rank_holds_up_no_other(world: World) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    world.server.refuse("PATCH", "/api/tasks/2/")
    with pytest.raises(LabelStudioRejectedError):
        world.publish()
    assert written(world) == {3: {FIRST: 2}, 1: {FIRST: 3}}
    world.server.judges.clear()
    world.publish(NOW + 40.0)
    assert orders(world) == {"Ann" + SUFFIX: [2, 3, 1]}


@pytest.mark.parametrize(("path", "channel"), [("/api/tasks$", "ranks"), ("/api/dm/views", "tab")])
def test_list_that_label_studio_does_not_give_is_asked_for_later(world: World, path: str, channel: str) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    world.server.refuse("GET", path)
    with pytest.raises(LabelStudioRejectedError):
        world.publish()
    assert world.publish(NOW + 1.0).waiting == (channel,)  # without an error that would hold up the others
    world.server.judges.clear()
    world.publish(NOW + 40.0)
    assert orders(world) == {"Ann" + SUFFIX: [2, 3, 1]}


@pytest.mark.parametrize("step", range(1, 10))
def test_killed_while_ranks_are_written_is_completed_or_taken_back(
    world: World, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(world, **RANKS)
    world.run(SCORES, {"2": 0.5})
    send, calls = world.server.send, [0]

    def killing(*args: Any, **options: Any) -> Any:
        answered = send(*args, **options)
        calls[0] += 1
        if calls[0] == step:
            raise Killed
        return answered

    monkeypatch.setattr(world.server, "send", killing)
    with pytest.raises(Killed):
        world.publish()
    monkeypatch.setattr(world.server, "send", send)
    if step % 2:
        world.publish()
        assert len(written(world)) == 3
    else:
        allow(world)
        world.publish()
        assert (written(world), world.tabs()) == ({}, [])


def test_label_anew_takes_no_ranks_along(world: World) -> None:
    allow(world, **RANKS)
    world.store.projects.set_config(world.project.id, world.config(after_confirm="relabel"))
    world.run(SCORES, {"2": 0.5})
    world.publish()
    world.store.decisions.add(world.project.id, "2", "confirm", author="lead")
    world.publish()
    (row,) = world.store.follow_ups.all(world.project.id)
    anew = [t["data"] for t in world.server.tasks.values() if t["project"] == row["detail"]["project"]]
    assert len(anew) == 3
    assert not any(name.startswith(PREFIX) for data in anew for name in data)


@pytest.mark.parametrize("key", ["item_left", "item_right", "coin", "stratum"])
def test_rank_is_refused_as_part_of_a_pair(key: str) -> None:
    with pytest.raises(UnusableValueError, match="a rank that this service writes"):
        resolve(parse_config({key: FIRST}), PAIRWISE)


def test_ranks_in_an_export_are_not_taken_for_the_two_items() -> None:
    data = [{"text1": f"a{n}", "text2": f"b{n}", FIRST: n, SECOND: 9 - n} for n in range(8)]
    assert item_fields(data, where="") == ("text1", "text2")
    assert one_pair([FIRST, SECOND, "answer_a", "answer_b"]) == ("answer_a", "answer_b")
