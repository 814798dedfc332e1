"""Rankings and lists in the service: by event and by pull every pair is stored, under the coin of its list."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from evenhand.domain import Project, ProjectRef
from evenhand.ingest.events import handle_event
from evenhand.ingest.pull import pull_project
from evenhand.label_studio.client import LabelStudioClient, project_epoch
from evenhand.label_studio.payloads import read_event
from evenhand.label_studio.transport import Transport
from evenhand.settings import Settings
from evenhand.store import Store

from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, URL, FakeLabelStudio

RANKER = (
    '<View><List name="answers" value="$answers" title="Answers"/>'
    '<Ranker name="rank" toName="answers"><Bucket name="best" title="Best"/></Ranker></View>'
)
ITEMS = ("first text", "second text", "third text")
Stored = dict[tuple[str, str], float]


class Lists:
    """A project of rankings, and the store that hears of it."""

    def __init__(self, store: Store) -> None:
        self.server, self.store = FakeLabelStudio(), store
        self.number = self.server.add_project("Ranks", RANKER)
        described = self.server.projects[self.number]
        transport = Transport(URL, LEGACY_TOKEN, session=self.server.session(), sleep=lambda seconds: None)
        self.client = LabelStudioClient(transport)
        ref = ProjectRef(self.number, project_epoch(described))
        self.project: Project = store.projects.register(URL, ref, title="Ranks", label_config=RANKER)
        data = {"answers": [{"id": str(k), "title": f"t{k}", "body": text} for k, text in enumerate(ITEMS)]}
        self.task = self.server.add_task(self.number, data)
        self.server.add_user("ann@example.com", "Ann")

    def rank(self, *order: str) -> list[dict[str, Any]]:
        value = {"ranker": {"_": [], "best": list(order)}}
        return [{"from_name": "rank", "to_name": "answers", "type": "ranker", "value": value}]

    def event(self, action: str, number: int) -> None:
        """Send what Label Studio would send about an annotation."""
        annotation = self.server.annotations.get(number, {"id": number})
        project = self.server.projects[self.number]
        body: dict[str, Any] = {"action": action, "annotation": annotation, "project": project}
        if action == "ANNOTATIONS_DELETED":
            body["annotations"] = [body.pop("annotation")]
        else:
            body["task"] = self.server.tasks[self.task]
        handle_event(self.store, Settings(label_studio_url=URL), read_event(body))

    def pull(self, *, full: bool = True) -> dict[str, Any]:
        found = self.store.projects.get(self.project.id)
        return pull_project(self.store, self.client, found, full=full).to_json()

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.store.projects.get(self.project.id).counts)

    @property
    def stored(self) -> Stored:
        rows = self.store.comparisons.rows(self.project.id)
        return {(row["left_item"], row["right_item"]): row["outcome"] for row in rows if row["status"] == "answer"}


@pytest.fixture
def lists(tmp_path: Path) -> Iterator[Lists]:
    with closing(new_store(tmp_path / "evenhand.db")) as store:
        yield Lists(store)


RANKED = {("first text", "second text"): -1.0, ("first text", "third text"): 1.0, ("second text", "third text"): 1.0}


@pytest.mark.parametrize("path", ["event", "pull"])
def test_a_ranking_gives_every_pair_in_the_order_of_the_list(lists: Lists, path: str) -> None:
    number = lists.server.annotate(lists.task, 2, lists.rank("1", "0", "2"))
    lists.event("ANNOTATION_CREATED", number) if path == "event" else lists.pull()
    assert lists.stored == RANKED
    assert {row["coin"] for row in lists.store.comparisons.rows(lists.project.id)} == {None}
    assert (lists.counts["answer"], lists.counts["further"], lists.counts["judged"]) == (3, 2, 3)
    changes = lists.store.comparisons.changes_since(lists.project.id, 0)
    assert {change.coin for change in changes} == {f"task:{lists.task}"}


def test_pulls_after_events_find_nothing_to_repair(lists: Lists) -> None:
    lists.event("ANNOTATION_CREATED", lists.server.annotate(lists.task, 2, lists.rank("1", "0", "2")))
    report = lists.pull()
    assert (report["repaired"], report["difference"], report["annotations"]) == (0, 0, 1)
    assert not lists.pull(full=False)["full"]


def test_a_shorter_ranking_takes_its_pairs_back_and_a_pull_gives_them_again(lists: Lists) -> None:
    number = lists.server.annotate(lists.task, 2, lists.rank("1", "0", "2"))
    lists.event("ANNOTATION_CREATED", number)
    lists.server.annotations[number] |= {"result": lists.rank("2", "0"), "updated_at": "2026-03-01T13:00:00Z"}
    lists.event("ANNOTATION_UPDATED", number)
    assert lists.stored == {("first text", "third text"): -1.0}
    lists.server.annotations[number] |= {"result": lists.rank("1", "0", "2"), "updated_at": "2026-03-01T14:00:00Z"}
    lists.pull()
    assert lists.stored == RANKED


def test_a_deleted_ranking_takes_all_of_its_pairs_along(lists: Lists) -> None:
    number = lists.server.annotate(lists.task, 2, lists.rank("1", "0", "2"))
    lists.event("ANNOTATION_CREATED", number)
    del lists.server.annotations[number]
    lists.event("ANNOTATIONS_DELETED", number)
    assert lists.stored == {}
    assert (lists.counts["answer"], lists.counts["further"], lists.counts["judged"]) == (0, 0, 0)
    assert lists.pull()["repaired"] == 0


def test_items_of_a_list_are_shown_by_their_texts(lists: Lists) -> None:
    long = "word " * 100
    lists.server.tasks[lists.task]["data"]["answers"][0]["body"] = long
    lists.server.annotate(lists.task, 2, lists.rank("1", "0", "2"))
    lists.pull()
    keys = {key for pair in lists.stored for key in pair}
    assert any(
        str(label).startswith("word word") for label in lists.store.items.labels(lists.project.id, keys).values()
    )


@pytest.mark.parametrize(
    ("order", "said"),
    [(("9", "0"), "which the task's list lacks"), (("0", "0"), "twice"), ((["0"], 5), "which the task's list lacks")],
)
def test_a_ranking_that_does_not_fit_its_list_is_kept_with_the_reason(lists: Lists, order: Any, said: str) -> None:
    lists.server.annotate(lists.task, 2, lists.rank(*order))
    lists.pull()
    (row,) = lists.store.comparisons.rows(lists.project.id)
    assert row["status"] == "unreadable"
    assert said in row["reason"]


def test_an_erased_person_leaves_nothing_of_a_ranking(lists: Lists) -> None:
    lists.server.annotate(lists.task, 2, lists.rank("1", "0", "2"))
    lists.pull()
    lists.store.people.erase(URL, ["2"])
    lists.pull()
    rows = lists.store.comparisons.rows(lists.project.id)
    assert {row["status"] for row in rows} == {"erased"}
    assert {row["outcome"] for row in rows} == {None}
