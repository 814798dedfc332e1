"""How long every page of the dashboard takes, on a project of many people and answers judged by a real run.

python -m benchmarks.pages [--answers 1000000] [--people 10000] [--draws 1] [--folder FOLDER]
Limits: list of annotators .2 s, Today, one annotator and the ranking .3 s, every other page .5 s (median of five,
without the network). Files to download, the report among them, are timed without a limit. On a busy machine look at
the processor seconds. With --folder the project is kept there, and judged only the first time.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from evenhand.app import create_app
from evenhand.project_config import parse_config
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from flask.testing import FlaskClient

from benchmarks.growth_fill import Crowd, fill
from harness import world
from harness.opened import client_of

LIMITS = {"list": 0.2, "today": 0.3, "annotator": 0.3, "ranking": 0.3, "file": float("inf")}
OTHERS = 0.5


def filled(store: Store, answers: int, people: int, draws: int) -> int:
    """Put the crowd into the store and judge it; returns the project."""
    project = world.register(store, 1, f"{answers:,} answers of {people:,} people")
    store.projects.set_config(project.id, parse_config({"lbi": f"draws={draws}" if draws else "off"}))
    started = time.perf_counter()
    fill(store, project.id, Crowd.of(answers, people=people))
    print(f"filled in {time.perf_counter() - started:.0f} s", flush=True)
    started = time.perf_counter()
    world.judge(store, store.projects.get(project.id))
    print(f"judged in {time.perf_counter() - started:.0f} s", flush=True)
    return project.id


def addresses(store: Store, project: int) -> dict[str, str]:
    """Every page by name."""
    base = f"/ui/projects/{project}"
    run = store.runs.latest(project)
    if run is None:
        failed = store.runs.latest(project, status=None)
        raise SystemExit(f"the run did not finish: {failed.error if failed else 'it was never made'}")
    worst = store.findings.page(run.id, limit=1).rows[0]["annotator"]
    tabs = ("ranking", "figures", "figures?form=paper", "runs", "decisions", "settings")
    return {
        "projects": "/ui/",
        "list": base,
        "list, everybody": f"{base}?show=everybody",
        "list, sorted, last page": f"{base}?show=everybody&sort=bias&order=desc&page=200",
        "list, searched": f"{base}?search=99",
        "today": f"{base}/today",
        "today, all projects": "/ui/today",
        "annotator": f"{base}/annotator?id={worst}",
        "one person": f"/ui/person?id={worst}",
        **{tab: f"{base}/{tab}" for tab in tabs},
        "compare": f"{base}/compare?a={run.id}&b={run.id}",
        "status": "/ui/status",
        **{f"file, {name}": f"{base}/runs/{run.id}/{name}" for name in ("report.html", "annotators.csv")},
    }


def main() -> None:
    """Fill, judge, time every page, and say whether all keep their limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        folder = asked.folder or Path(passing)
        settings = Settings(model_dir=folder, database_url=f"sqlite:///{folder / 'pages.db'}", log_level="ERROR")
        store = open_store(settings)
        known = [project.id for project in store.projects.all()]
        project = known[0] if known else filled(store, asked.answers, asked.people, asked.draws)
        print(f"load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        client = client_of(create_app(settings, store))
        slow = [name for name, path in addresses(store, project).items() if not _is_quick(client, name, path)]
        store.close()
    raise SystemExit(f"too slow: {', '.join(slow)}" if slow else 0)


def _is_quick(client: FlaskClient, name: str, path: str) -> bool:
    """Time a page and print it beside its limit."""
    spent, busy, size = [], [], 0
    for _ in range(6):
        started, worked = time.perf_counter(), time.process_time()
        answer = client.get(path, headers={"Accept": "text/html"})
        spent.append(time.perf_counter() - started)
        busy.append(time.process_time() - worked)
        assert answer.status_code == 200, (name, answer.status_code)
        size = len(answer.data)
    limit = LIMITS.get(name.split(",")[0], OTHERS)
    took = median(spent[1:])
    figures = f"processor {median(busy[1:]):.3f} s, limit {limit} s, first {spent[0]:.3f} s, {size / 1000:,.0f} kB"
    print(f"{name:<26} {took:6.3f} s  ({figures})", flush=True)
    return took <= limit


if __name__ == "__main__":
    main()
