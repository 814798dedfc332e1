"""Outgoing alerts: each fact once, signed, patient with a webhook that fails."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from evenhand.domain import Batch, Comparison, Project, ProjectRef, RunResult, StoredEvidence, Trigger
from evenhand.project_config import ProjectConfig
from evenhand.publish.notify import SendReport, send_due
from evenhand.settings import Settings
from evenhand.store.schema import leases
from requests.adapters import BaseAdapter
from sqlalchemy import delete

from harness.databases import new_store
from harness.label_configs import PAIRWISE
from harness.responses import make_response

HOOK = "https://hooks.test/services/1"
SETTINGS = Settings(alert_webhook_url=HOOK, alert_webhook_secret="k3y", public_url="https://evenhand.test")


class Hook(BaseAdapter):
    """A chat's incoming webhook."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[requests.PreparedRequest] = []
        self.status = 200
        self.error: Exception | None = None

    def send(self, request: requests.PreparedRequest, *_: Any, **options: Any) -> requests.Response:
        self.requests.append(request)
        if self.error:
            raise self.error
        response = make_response(self.status, "ok")
        response.request, response.url = request, str(request.url)
        return response

    def close(self) -> None:
        """Nothing is held open."""

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(request.body or b"") for request in self.requests]


class World:
    """A store with one project, a webhook, and a clock that moves past the pause between rounds."""

    def __init__(self, path: Path) -> None:
        self.now = 1_900_000_000.0
        self.store = new_store(path / "evenhand.db", lambda: self.now)
        self.hook = Hook()
        self.session = requests.Session()
        self.session.mount("https://", self.hook)
        self.project = self.add_project("Pairs <1>", 1)

    def add_project(self, title: str, number: int) -> Project:
        project = self.store.projects.register("http://ls", ProjectRef(number, 5), title=title, label_config=PAIRWISE)
        row = Comparison(number, 1, "17", "a", "b", None, None, 1.0, "answer", None, False, 1.0, 1.0, 1.0)
        self.store.comparisons.apply(project.id, Batch(comparisons=[row]))
        self.store.annotators.name(project.id, {"17": ("Ann <!channel>", "ann@example.com")})
        return project

    def flag(self, *annotators: str, project: Project | None = None) -> None:
        project = project or self.project
        self.now += 1
        self.store.runs.request(project.id, Trigger.MANUAL)
        claimed = self.store.runs.claim("test", 60.0)
        assert claimed is not None
        evidence = {"bias": -0.41, "comparisons": 120}
        flags = [{"annotator_id": key, "finding": "right side only", "evidence": evidence} for key in annotators]
        empty: dict[str, Any] = {}
        result = RunResult(1, 0, empty, empty, empty, "", empty, empty, "", flags=list(flags))
        self.store.runs.finish(claimed[0].id, claimed[1], result)

    def send(self, *, after: float = 0.0, settings: Settings = SETTINGS) -> SendReport:
        self.now += after
        with self.store.database.write() as connection:  # the pause between two rounds is over
            connection.execute(delete(leases))
        return send_due(self.store, settings, self.session, self.now)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def test_without_alert_webhook_nothing_is_queued_or_sent(world: World) -> None:
    world.flag("17")
    assert world.send(settings=Settings()) == SendReport()
    assert world.store.notifications.due() == []


def test_new_flag_is_told_once_in_calm_words(world: World) -> None:
    world.flag("17")
    assert world.send() == SendReport(queued=1, sent=1)
    assert world.send(after=100) == SendReport()
    (message,) = world.hook.messages()
    assert "right side only (120 answers, lean 0.41 to the right)" in message["text"]
    assert message["text"].endswith(f"https://evenhand.test/ui/projects/{world.project.id}")
    assert message["facts"][0]["kind"] == "flagged"
    assert "bad" not in str(message)


def test_names_cannot_become_mentions_or_links(world: World) -> None:
    world.flag("17")
    world.send()
    text = world.hook.messages()[0]["text"]
    assert "Ann &lt;!channel&gt;" in text
    assert "Pairs &lt;1&gt;" in text
    assert "<" not in text


def test_flag_that_stays_over_runs_is_not_told_again(world: World) -> None:
    world.flag("17")
    world.send()
    world.flag("17")
    assert world.send(after=100) == SendReport()


def test_cleared_and_flagged_again_are_facts_of_their_own(world: World) -> None:
    for flags in (["17"], [], ["17"]):
        world.flag(*flags)
        world.send(after=100)
    assert [message["facts"][0]["kind"] for message in world.hook.messages()] == ["flagged", "cleared", "flagged"]


def test_early_warning_is_told_once(world: World) -> None:
    warned = StoredEvidence("17", {}, 3.0, 3.0, 9, world.now)
    seq = world.store.projects.get(world.project.id).seq
    world.store.live.put(world.project.id, [warned], from_seq=0, to_seq=seq)
    assert world.send().sent == 1
    assert world.send(after=100) == SendReport()
    assert "early warning" in world.hook.messages()[0]["text"]


def test_facts_of_one_project_share_a_message_and_projects_do_not(world: World) -> None:
    other = world.add_project("Other", 2)
    world.flag("1", "2", "3")
    world.flag("9", project=other)
    assert world.send() == SendReport(queued=4, sent=2)
    assert sorted(len(message["facts"]) for message in world.hook.messages()) == [1, 3]


def test_signature_covers_time_and_body(world: World) -> None:
    world.flag("17")
    world.send()
    (request,) = world.hook.requests
    stamp, body = request.headers["X-Evenhand-Timestamp"], request.body
    assert isinstance(body, bytes)
    expected = hmac.new(b"k3y", stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert request.headers["X-Evenhand-Signature"] == f"sha256={expected}"


def test_without_secret_nothing_is_signed(world: World) -> None:
    world.flag("17")
    world.send(settings=Settings(alert_webhook_url=HOOK))
    assert "X-Evenhand-Signature" not in world.hook.requests[0].headers


@pytest.mark.parametrize("failure", [500, 302, requests.ConnectionError("no")])
def test_failure_is_a_visible_problem_and_tried_again_later(world: World, failure: int | Exception) -> None:
    if isinstance(failure, int):
        world.hook.status = failure
    else:
        world.hook.error = failure
    world.flag("17")
    assert world.send() == SendReport(queued=1, failed=1)
    assert [problem.code for problem in world.store.problems.find()] == ["alert_webhook"]
    assert world.send(after=29) == SendReport()
    world.hook.status, world.hook.error = 200, None
    assert world.send(after=2) == SendReport(sent=1)
    assert world.store.problems.find() == []


def test_webhook_that_never_answers_is_given_up(world: World) -> None:
    world.hook.status = 500
    world.flag("17")
    for _ in range(20):
        world.send(after=7 * 3600)
    assert len(world.hook.requests) == 12


def test_rounds_keep_their_distance(world: World) -> None:
    world.flag("1")
    assert send_due(world.store, SETTINGS, world.session, world.now).sent == 1
    world.flag("1", "2")
    assert send_due(world.store, SETTINGS, world.session, world.now) == SendReport(queued=1)


def test_pseudonyms_keep_name_and_id_at_home(world: World) -> None:
    config = ProjectConfig.model_validate({"publish": {"pseudonyms": True}})
    world.store.projects.set_config(world.project.id, config)
    world.flag("17")
    world.send()
    message = world.hook.messages()[0]
    assert "Ann" not in str(message)
    assert message["facts"][0]["annotator"].startswith("annotator-")
