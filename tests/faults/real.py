"""The same questions against a real Label Studio, cut off from the service for a while."""

import random
import time
from typing import TYPE_CHECKING, Any

from evenhand.settings import Settings
from evenhand.store import open_store

from harness.label_studio import LabelStudioServer, Person, is_installed
from harness.service import Service
from tests.faults.machine import NotHereError, Wire
from tests.faults.rig import OUTCOMES, Outcome, Rows, wait_for, waited

if TYPE_CHECKING:
    from tests.faults.cases import Setting

PEOPLE = 4
TASKS = 12


def cut_off(setting: "Setting", outcome: Outcome) -> None:
    """Both directions are cut for 15 s while people go on; the worker's pull must bring everything."""
    if not is_installed():
        raise NotHereError("Label Studio is not installed in .label-studio/venv")
    with LabelStudioServer() as studio:
        outward = Wire(studio.port)
        service = Service(setting.folder, _variables(outward.url, studio.legacy_token))
        inward = Wire(service.port)
        service.environment["EVENHAND_PUBLIC_URL"] = inward.url
        try:
            service.start()
            _try(studio, service, outward, inward, outcome)
        finally:
            service.stop()
            service.log.close()
            outward.cut()
            inward.cut()


def _variables(url: str, token: str) -> dict[str, str]:
    return {"LABEL_STUDIO_URL": url, "LABEL_STUDIO_API_KEY": token, "EVENHAND_RECONCILE_MINUTES": "0.05"}


def _try(studio: LabelStudioServer, service: Service, outward: Wire, inward: Wire, outcome: Outcome) -> None:
    people = [studio.add_person(f"fire{k}@example.com") for k in range(PEOPLE)]
    project = studio.create_project("Under fire", maximum_annotations=PEOPLE)["id"]
    _command(service, "connect", str(project), "--yes", "--sides", "random")
    data = [{"data": {"text1": f"item {k % 7}", "text2": f"item {(k + 3) % 7}"}} for k in range(TASKS)]
    tasks = studio.import_tasks(project, data)
    rng = random.Random(4)
    made = [_answer(person, task, rng) for task in tasks[:6] for person in people]
    wait_for("the events", lambda: _stored(service) == _exported(studio, project), 30)
    outcome.sent = outcome.acknowledged = len(made)
    outward.cut()
    inward.cut()
    more = [_answer(person, task, rng) for task in tasks[6:10] for person in people]
    people[0].edit(made[0]["id"], "left" if made[0]["result"][0]["value"]["selected"] == "right" else "right")
    studio.admin.call("DELETE", f"/api/annotations/{made[5]['id']}/")
    studio.admin.call("DELETE", f"/api/tasks/{tasks[1]}/")
    time.sleep(15.0)
    outcome.require(_stored(service) != _exported(studio, project), "the wire was not cut")
    outward.join()
    inward.join()
    begun = time.monotonic()
    equal = waited(lambda: _stored(service) == _exported(studio, project), 60)
    outcome.healthy = time.monotonic() - begun
    ours, theirs = _stored(service), _exported(studio, project)
    outcome.rows, outcome.different = len(theirs), sum(ours.get(k) != theirs.get(k) for k in {*ours, *theirs})
    outcome.require(equal is not None, f"{outcome.different} annotations differ from Label Studio's export")
    outcome.notes.append(f"{len(more)} answers, 1 edit, 2 deletions while cut off; compared with its JSON export")
    _run_and_listen(service, people[1], tasks[11], outcome)


def _run_and_listen(service: Service, person: Person, task: int, outcome: Outcome) -> None:
    """Events come through again, and a run finishes."""
    begun, before = time.monotonic(), len(_stored(service))
    person.annotate(task, "left")
    outcome.require(waited(lambda: len(_stored(service)) == before + 1, 10) is not None, "events do not come again")
    run = int(service.api("POST", "/projects/1/runs", {})["id"])
    done = waited(lambda: service.api("GET", f"/projects/1/runs/{run}")["status"] == "done", 30)
    outcome.run_seconds = time.monotonic() - begun
    outcome.require(done is not None, "no run finished within 30 s")


def _answer(person: Person, task: int, rng: random.Random) -> dict[str, Any]:
    return person.annotate(task, rng.choice(("left", "right")))


def _exported(studio: LabelStudioServer, project: int) -> Rows:
    return {
        row["id"]: (task["id"], str(row["completed_by"]), OUTCOMES[row["result"][0]["value"]["selected"]])
        for task in studio.export(project)
        for row in task["annotations"]
    }


def _stored(service: Service) -> Rows:
    store = open_store(Settings.from_env(service.environment))
    try:
        rows = store.comparisons.rows(1)
    finally:
        store.close()
    return {row["annotation_id"]: (row["task_id"], row["annotator_id"], row["outcome"]) for row in rows}


def _command(service: Service, *arguments: str) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "evenhand.cli", *arguments]
    done = subprocess.run(command, env=service.environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"evenhand {' '.join(arguments)}: {done.stdout}{done.stderr}")
