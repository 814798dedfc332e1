"""How long the pages take that people open every day: `python -m benchmarks.pages` (1,000 annotators, 40 answers each).

Processor time of one request after another against the app itself, without a browser; with `--folder` a database that
a former call left there is used again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from evenhand.app import create_app
from evenhand.domain import Project
from evenhand.settings import Settings
from evenhand.store import Store, open_store

from harness import world
from harness.opened import client_of

PAGES = (
    "today",
    "projects/{}",
    "projects/{}?show=everybody&page=9",
    "projects/{}/today",
    "projects/{}/annotator?id={}",
)
REPEATS = 9


def filled(store: Store, people: int, answers: int) -> Project:
    """A judged project whose answers reach up to now."""
    known = [project for project in store.projects.all() if project.title == "Pages"]
    if known:
        return known[0]
    world.START = store.clock() - 60.0 * people * answers
    project = world.simulated(store, 1, "Pages", annotators=people, biased=people // 12, answers=answers)
    world.judge(store, project)
    return project


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=1000)
    parser.add_argument("--answers", type=int, default=40)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with TemporaryDirectory() as made:
        folder = asked.folder or Path(made)
        folder.mkdir(exist_ok=True)
        settings = Settings(
            model_dir=folder, database_url=f"sqlite:///{folder / 'evenhand.db'}", log_level="ERROR", webhook_secret="s"
        )
        store = open_store(settings)
        project = filled(store, asked.people, asked.answers)
        run = store.runs.latest(project.id)
        assert run is not None
        who = store.findings.flagged(run.id)[0]
        client = client_of(create_app(settings, store))
        print("| page | median s | slowest s |\n|---|---|---|")
        for page in PAGES:
            path = f"/ui/{page.format(project.id, who)}"
            spent = []
            for _ in range(REPEATS):
                start = time.process_time()
                answer = client.get(path, headers={"Accept": "text/html"})
                spent.append(time.process_time() - start)
                assert answer.status_code == 200, answer.text
            print(f"| /ui/{page} | {median(spent):.3f} | {np.max(spent):.3f} |")
        store.close()


if __name__ == "__main__":
    main()
