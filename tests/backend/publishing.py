"""A project that is published to an in-memory Label Studio, and what people there then see."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.domain import Kind, Project, ProjectRef, RunResult, Trigger
from evenhand.ingest.pull import pull_project
from evenhand.label_studio.client import LabelStudioClient, project_epoch
from evenhand.label_studio.payloads import ALERT_ANNOTATOR, COLUMNS
from evenhand.label_studio.transport import Transport
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.publish import PublishReport, publish_project
from evenhand.publish.tabs import is_ours
from evenhand.settings import Settings
from evenhand.store import Store

from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, URL, FakeLabelStudio

NOW = 1_900_000_000.0
SETTINGS = Settings(public_url="http://evenhand.test:9090", webhook_secret="s3cret")
ALERTS: tuple[Kind, ...] = ("alerts",)
ALL = {"predictions": True, "tab": True, "alerts": True}


@dataclass
class World:
    """A Label Studio with a pulled project of three completed tasks and one open one."""

    server: FakeLabelStudio
    store: Store
    client: LabelStudioClient
    project: Project

    def configure(self, **publish: bool) -> None:
        config = ProjectConfig.model_validate({"publish": publish})
        self.store.projects.set_config(self.project.id, config)

    def config(self, **values: Any) -> ProjectConfig:
        """The project's settings with some of them changed."""
        return parse_config(values, base=self.store.projects.get(self.project.id).config)

    def ref(self) -> ProjectRef:
        """How Label Studio names the project."""
        return ProjectRef(self.project.ls_project_id, self.project.epoch)

    def pull(self) -> None:
        pull_project(self.store, self.client, self.store.projects.get(self.project.id), full=False)

    def publish(self, now: float = NOW) -> PublishReport:
        return publish_project(self.store, self.client, self.project, now=now, settings=SETTINGS)

    def run(self, scores: dict[str, float], flagged: dict[str, float]) -> None:
        """Store a finished run with these item scores and these lasting flags (annotator to bias)."""
        self.store.runs.request(self.project.id, Trigger.MANUAL)
        claimed = self.store.runs.claim("test", 60.0)
        assert claimed is not None
        run, lease = claimed
        items = [{"item": item, "score": score, "rank": 1} for item, score in scores.items()]
        counts = {"comparisons": 40, "left": 35, "right": 5, "ties": 0}
        people = [{"annotator": key, "bias": bias, **counts} for key, bias in flagged.items()]
        flags = [
            {"annotator_id": key, "finding": "leans left", "evidence": {"bias": bias}} for key, bias in flagged.items()
        ]
        empty: dict[str, Any] = {}
        result = RunResult(
            seq=1, seed=0, config=empty, versions=empty, audit=empty, guarantee="", summary=empty, timings=empty,
            data_hash="", annotators=list(people), items=list(items), flags=list(flags),
        )  # fmt: skip
        self.store.runs.finish(run.id, lease, result)

    def winners(self) -> dict[int, str]:
        """What each task shows, by task; one with two predictions of ours, or an empty one, would fail here."""
        shown: dict[int, str] = {}
        for entry in self.server.predictions.values():
            if str(entry["model_version"]).startswith("evenhand"):
                assert entry["task"] not in shown
                shown[entry["task"]] = entry["result"][0]["value"]["selected"]
        return shown

    def alerts(self) -> Project:
        (found,) = self.store.projects.all(kinds=ALERTS)
        return found

    def cards(self) -> dict[str, dict[str, Any]]:
        number = self.alerts().ls_project_id
        return {t["data"][ALERT_ANNOTATOR]: t for t in self.server.tasks.values() if t["project"] == number}

    def tabs(self) -> list[dict[str, Any]]:
        return [view for view in self.server.views.values() if is_ours(view["data"]["title"])]

    def titles(self) -> list[str]:
        """The tabs people see in the comparison project."""
        return [view["data"]["title"] for view in self.server.views.values() if view["project"] == 1]

    def writes(self) -> int:
        return sum(self.server.count(method) for method in ("POST", "PATCH", "DELETE"))

    def columns(self) -> dict[int, tuple[str, ...]]:
        """What tabs wrote into tasks, by task."""
        tasks = self.server.tasks.values()
        found = {task["id"]: tuple(task["data"].get(name, "") for name in COLUMNS) for task in tasks}
        return {number: told for number, told in found.items() if any(told)}


def pairs_world(folder: Path) -> Iterator[World]:
    """Four tasks with answers of two people out of three, everything published."""
    server = FakeLabelStudio()
    number = server.add_project("Pairs")
    for email, first in (("ann@example.com", "Ann"), ("bob@example.com", ""), ("cat@example.com", "<b>Cat</b>")):
        server.add_user(email, first)
    for index in range(4):
        task = server.add_task(number, {"text1": f"item {index}", "text2": f"item {index + 1}"}, overlap=2)
        server.annotate(task, 2, "left")
        if index < 3:
            server.annotate(task, 3, "left")
    client = LabelStudioClient(Transport(URL, LEGACY_TOKEN, session=server.session(), sleep=lambda seconds: None))
    store = new_store(folder / "evenhand.db")
    described = server.projects[number]
    project = store.projects.register(
        URL, ProjectRef(number, project_epoch(described)), title="Pairs", label_config=described["label_config"]
    )
    made = World(server, store, client, project)
    made.configure(**ALL)
    made.pull()
    yield made
    store.close()
