"""From nothing to the first flag, step by step with seconds: python -m tests.label_studio.first_flag [--installed].

A Label Studio with a project of twelve annotators, three of whom lean left, is there; everything else is done here as
the README says it. Answers come in rounds of eight each, and the clock stands still while Label Studio takes them in.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.label_studio import ROOT, LabelStudioServer
from tests.label_studio.conftest import Processes
from tests.label_studio.looking import FIELDS, alert_cards
from tests.label_studio.test_where_the_work_is import leaning_crowd

PEOPLE, LEANING, ROUND, MOST_ANSWERS = 12, 3, 8, 96
TITLE = "First flag"


class Watch:
    """Steps with their seconds."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []
        self._since = time.monotonic()

    def done(self, step: str) -> None:
        """A step has ended."""
        self.steps.append((step, time.monotonic() - self._since))
        print(f"{len(self.steps)}. {step}: {self.steps[-1][1]:.0f} s", flush=True)
        self.go_on()

    def go_on(self) -> None:
        """What went before is nobody's time."""
        self._since = time.monotonic()


def install(folder: Path) -> None:
    """Evenhand from this source, into an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "pip"), "install", "-q", f"{ROOT}[server]"], check=True)


def main(arguments: list[str]) -> None:
    """Go the way once and print it."""
    with LabelStudioServer() as label_studio, tempfile.TemporaryDirectory(prefix="evenhand-first-") as name:
        folder, rng = Path(name), random.Random(1)
        people = [label_studio.add_person(f"first{number}@example.com") for number in range(PEOPLE)]
        project = label_studio.create_project(TITLE, maximum_annotations=PEOPLE)["id"]
        watch = Watch()
        if "--installed" not in arguments:
            install(folder / "venv")
            watch.done("install")
        evenhand = Processes(folder, label_studio, label_studio.personal_access_token())
        watch.done("copy the token from Label Studio's account page into LABEL_STUDIO_API_KEY")
        try:
            evenhand.start()
            watch.done("evenhand serve")
            published = ("--sides", "shuffled", "--publish", "alerts", "--names", "--yes")
            evenhand.command("connect", str(project), *FIELDS, *published, "--every-answers", "20")
            watch.done("evenhand connect")
            given = 0
            while given < MOST_ANSWERS:
                label_studio.import_tasks(project, leaning_crowd(people, people[:LEANING], rng, n=ROUND))
                given += ROUND
                watch.go_on()
                evenhand.command("sync", str(project))
                deadline = time.monotonic() + 60
                while not (cards := alert_cards(label_studio, TITLE)) and time.monotonic() < deadline:
                    time.sleep(1)
                if cards:
                    break
            watch.done(f"first card in Label Studio, after {given} answers each")
            print(f"{len(watch.steps)} steps, {sum(seconds for _, seconds in watch.steps) / 60:.1f} minutes")
            wrong = set(cards) - {str(person.id) for person in people[:LEANING]}
            print(f"{len(cards)} flagged, {len(wrong)} of them wrongly")
        finally:
            evenhand.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
