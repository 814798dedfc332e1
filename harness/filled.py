"""A database with something in every corner: two people flagged, decisions, runs, messages."""

from typing import Any

from evenhand.domain import (
    Batch,
    Comparison,
    Project,
    ProjectRef,
    Publication,
    RunResult,
    StoredEvidence,
    Task,
    Trigger,
)
from evenhand.project_config import ProjectConfig
from evenhand.store import Store

from harness.label_configs import PAIRWISE

URL = "http://ls"
LEANS = "987654321"
OTHERS = ("11", "12", "13")
NAME, EMAIL = "Zerlina Quickhand", "zerlina.quickhand@example.org"
AT = 1_799_000_000.0


def answer(
    number: int, annotator: str, *, task: int | None = None, outcome: float | None = 1.0, **more: Any
) -> Comparison:
    """One answer on one of five tasks."""
    task = task if task is not None else number % 5 + 1
    values: dict[str, Any] = {
        "annotation_id": number, "task_id": task, "annotator_id": annotator, "left_item": f"i{task}",
        "right_item": f"i{task % 5 + 1}", "coin": None, "stratum": None, "outcome": outcome, "status": "answer",
        "reason": None, "ground_truth": False, "lead_time": 2.5, "created_at": AT + number, "updated_at": AT + number,
    }  # fmt: skip
    return Comparison(**{**values, **more})


def tasks() -> list[Task]:
    """The five tasks."""
    return [
        Task(n, f"i{n}", f"i{n % 5 + 1}", f"Item {n}", f"Item {n % 5 + 1}", None, None, False, AT) for n in range(1, 6)
    ]


def answers(people: tuple[str, ...]) -> list[Comparison]:
    """Ten answers of each, the same whoever else is there; one is ground truth, one was skipped."""
    rows = []
    for person in people:
        base = {LEANS: 1000, "11": 100, "12": 200, "13": 300}[person]
        for k in range(10):
            side = 1.0 if person == LEANS or k % 2 else -1.0
            rows.append(answer(base + k, person, task=k % 5 + 1, outcome=side, ground_truth=k == 9))
        rows.append(answer(base + 50, person, task=1, status="skip", outcome=None))
    return rows


def fill(store: Store, people: tuple[str, ...] = (*OTHERS, LEANS), *, number: int = 1) -> Project:
    """Put a project with answers, names, a run, flags, evidence, messages and decisions into a store."""
    config = ProjectConfig.model_validate({"publish": {"alerts": True, "tab": True}})
    project = store.projects.register(URL, ProjectRef(number, 100), title="Pairs", label_config=PAIRWISE, config=config)
    store.comparisons.apply(project.id, Batch(tasks=tasks(), comparisons=answers(people)))
    names = {"11": ("Ana", "ana@example.org"), LEANS: (NAME, EMAIL)}
    store.annotators.name(project.id, {key: value for key, value in names.items() if key in people})
    _fill_run(store, project, people)
    if LEANS in people:
        _fill_findings(store, project)
    store.decisions.add(project.id, "11", "dismiss", author="ana", comment="fine")
    store.users.put("ana", "scrypt:hash")
    return store.projects.get(project.id)


def _fill_run(store: Store, project: Project, people: tuple[str, ...]) -> None:
    store.runs.request(project.id, Trigger.MANUAL, "ana")
    claimed = store.runs.claim("test", 60.0)
    assert claimed is not None
    run, lease = claimed
    counts = {"comparisons": 10, "left": 9, "right": 1, "ties": 0}
    rows = [{"annotator": key, "bias": 0.5, "finding": "leans left", **counts} for key in people]
    flags = [{"annotator_id": LEANS, "finding": "left side only", "evidence": {"bias": 0.9}}] if LEANS in people else []
    empty: dict[str, Any] = {}
    result = RunResult(
        seq=store.projects.get(project.id).seq, seed=0, config=empty, versions=empty, audit={"reasons": []},
        guarantee="none: no", summary={"flagged": 1}, timings=empty, data_hash="h", annotators=list(rows),
        items=[{"item": "i1", "score": 0.1 + 0.2, "rank": 1.0}], order_changes=[{"above": "i1", "below": "i2"}],
        path={"times": [0.0, 1.0], "annotators": list(people), "gamma": [[0.0] * len(people), [0.5] * len(people)]},
        flags=list(flags),
    )  # fmt: skip
    store.runs.finish(run.id, lease, result)


def _fill_findings(store: Store, project: Project) -> None:
    seq = store.projects.get(project.id).seq
    row = StoredEvidence(LEANS, {"grid": [0.1]}, 4.0, 5.0, 10, AT)
    store.live.put(project.id, [row], from_seq=0, to_seq=seq)
    fact = {"kind": "flagged", "annotator": LEANS, "name": NAME}
    store.notifications.add(f"flagged:{project.id}:{LEANS}:{AT:.6f}", fact, project_id=project.id)
    store.notifications.settle(f"flagged:{project.id}:{LEANS}:{AT:.6f}")
    store.publications.put(Publication(project.id, "notify", f"flag:{LEANS}", "1", None, "done", 0, None, None, AT))
    store.decisions.add(project.id, LEANS, "confirm", author="ana", comment=f"spoke with {NAME}")
    store.decisions.add(project.id, "12", "watch", author=NAME, comment="as a reviewer")
    store.problems.open(project.id, "odd", f"{EMAIL} did something", "look")
