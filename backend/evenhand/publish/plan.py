"""Which predictions have to be written so that Label Studio shows what it should, and nothing more."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

PREFIX = "evenhand"
SCORE_STEP = 0.05  # a score that moved by less is not written again
# Changes are written one by one while they are few: removing a whole version keeps Label Studio's database busy for
# 20 ms a prediction, during which annotators wait.
FEW, FEW_SHARE, MOST = 100, 0.25, 1000


@dataclass(frozen=True)
class Plan:
    """The writes that lead from what is there to what should be, all under one model version."""

    version: str
    create: list[Json]
    update: dict[int, Json]
    delete: list[int]
    drop_versions: list[str]


def make_plan(existing: Iterable[Json], desired: Mapping[int, Json], published: str | None, current: str) -> Plan:
    """Keep the published model version while little changes, else replace everything under the current one."""
    ours = [entry for entry in existing if str(entry.get("model_version") or "").startswith(PREFIX)]
    if published:
        plan = _plan_for(published, ours, desired)
        few = min(max(FEW, FEW_SHARE * len(desired)), MOST)
        if published == current or len(plan.update) + len(plan.delete) <= few:
            return plan
    return _plan_for(current, ours, desired)


def _plan_for(version: str, ours: list[Json], desired: Mapping[int, Json]) -> Plan:
    by_task: dict[int, list[Json]] = {}
    for entry in ours:
        if entry["model_version"] == version:
            by_task.setdefault(int(entry["task"]), []).append(entry)
    create, update, delete = [], {}, []
    for task, wanted in desired.items():
        found = sorted(by_task.pop(task, []), key=lambda entry: not _same(entry, wanted))
        if not found:
            create.append({**wanted, "task": task, "model_version": version})
        elif not _same(found[0], wanted):
            update[int(found[0]["id"])] = {"result": wanted["result"], "score": wanted["score"]}
        delete += [int(extra["id"]) for extra in found[1:]]
    delete += [int(entry["id"]) for leftover in by_task.values() for entry in leftover]
    # A winner that must go is taken back before anything else is written.
    update = dict(sorted(update.items(), key=lambda change: bool(change[1]["result"])))
    others = Counter(str(entry["model_version"]) for entry in ours if entry["model_version"] != version)
    return Plan(version, create, update, delete, sorted(others))


def _same(entry: Json, wanted: Json) -> bool:
    """Whether a prediction shows the same answer, with a score near enough."""
    if _answers(entry) != _answers(wanted):
        return False
    return abs(float(entry.get("score") or 0.0) - float(wanted["score"])) < SCORE_STEP


def _answers(entry: Json) -> list[tuple[Any, Any]]:
    results = entry.get("result")
    return [(part.get("from_name"), part.get("value")) for part in results] if isinstance(results, list) else []
