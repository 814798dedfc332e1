"""A real Label Studio with a simulated crowd, watched by Evenhand while it answers: `python scripts/demo.py --help`."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

if __name__ == "__main__":  # started as a file, Python looks for modules beside it, not in the project's folder
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.demo_crowd import Answer, Crowd, Task
from harness.label_studio import ADMIN_EMAIL, ADMIN_PASSWORD, LabelStudioServer, Person
from harness.opened import token_header
from harness.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".label-studio" / "demo"  # the last demo's data and logs, removed when the next one starts
MARK = "made-by-evenhand-demo"
PER_TASK = 12
PER_WAVE = 50
UNIQUE_TASKS = 200
# Most answers of a wave come in with an import, as from another tool; these few are clicked one by one, and each of
# them sends its event at once.
CLICKED = 3
SETTLE_SECONDS = 180.0
IMPORT_ATTEMPTS = 10


def say(text: str) -> None:
    """Print one line of the story, with the time."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def port_or_free(usual: int, asked: int | None = None) -> int:
    """Return the usual port if nobody has it, else another one; a port that was asked for has to be free."""
    with socket.socket() as probe:
        is_taken = probe.connect_ex(("127.0.0.1", asked or usual)) == 0
    if asked and is_taken:
        raise SystemExit(f"port {asked} is taken; choose another one, or leave the option out for a free one")
    return asked or (free_port() if is_taken else usual)


@dataclass
class Evenhand:
    """A running Evenhand and its settings."""

    url: str
    folder: Path
    environment: dict[str, str]

    def command(self, *arguments: str) -> str:
        """Run `evenhand ...` with the service's settings and return what it printed."""
        done = subprocess.run(
            [program(), *arguments], env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise RuntimeError(
                f"evenhand {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done.stdout

    def get(self, path: str) -> Any:
        """Read from the JSON API."""
        answer = requests.get(self.url + path, headers=token_header(self.folder / "evenhand"), timeout=30)
        answer.raise_for_status()
        return answer.json()


def program() -> str:
    """Return the evenhand program beside the interpreter that runs this."""
    return str(Path(sys.executable).parent / "evenhand")


@contextmanager
def evenhand_serving(label_studio: LabelStudioServer, port: int, folder: Path) -> Iterator[Evenhand]:
    """Run `evenhand serve` for the length of the block, in a process group of its own."""
    url = f"http://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "LABEL_STUDIO_URL": label_studio.url,
        "LABEL_STUDIO_API_KEY": label_studio.personal_access_token(),
        "EVENHAND_PUBLIC_URL": url,
        "EVENHAND_WEBHOOK_SECRET": secrets.token_hex(16),
        "EVENHAND_RECONCILE_MINUTES": "0.25",
        "MODEL_DIR": str(folder / "evenhand"),
        "PORT": str(port),
    }
    with (folder / "evenhand.log").open("wb") as log:
        process = subprocess.Popen(
            [program(), "serve"], env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_until_healthy(process, url, folder / "evenhand.log")
        yield Evenhand(url, folder, environment)
    finally:
        end(process)


def wait_until_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait for /health, or stop with the service's log."""
    give_up = time.monotonic() + 180
    while time.monotonic() < give_up and process.poll() is None:
        try:
            if requests.get(url + "/health", timeout=2).ok:
                return
        except requests.RequestException:
            time.sleep(0.2)
    raise RuntimeError(f"Evenhand did not start:\n{log.read_text()[-3000:]}")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=15)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def sign_up(label_studio: LabelStudioServer, crowd: Crowd) -> list[Person]:
    """Make an account for everybody."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda person: label_studio.add_person(crowd.email(person)), range(crowd.n_annotators)))


def answer_wave(label_studio: LabelStudioServer, project: int, wave: Sequence[Task], people: Sequence[Person]) -> None:
    """Let the crowd answer one batch of tasks: the last few by single clicks, the rest by an import."""
    accounts = [person.id for person in people]
    import_answered(label_studio, project, [task.imported(accounts) for task in wave[:-CLICKED]])
    clicked = label_studio.import_tasks(project, [{"data": task.data()} for task in wave[-CLICKED:]])
    clicks = [
        (task_id, answer) for task_id, task in zip(clicked, wave[-CLICKED:], strict=True) for answer in task.answers
    ]

    def click(task_and_answer: tuple[int, Answer]) -> None:
        task_id, answer = task_and_answer
        people[answer.annotator].annotate(task_id, answer.side, lead_time=answer.seconds)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(click, clicks))


def import_answered(label_studio: LabelStudioServer, project: int, tasks: Sequence[dict[str, Any]]) -> None:
    """Import tasks with their answers, and again if Label Studio kept the tasks only.

    On SQLite it tries again when its database is locked, but by then has taken the answers out of the request.
    """
    expected = sum(len(task["annotations"]) for task in tasks)
    for _ in range(IMPORT_ATTEMPTS):
        answer = label_studio.admin.call(
            "POST", f"/api/projects/{project}/import?return_task_ids=true", json=list(tasks)
        )
        if answer["annotation_count"] == expected:
            return
        chosen = {"selectedItems": {"all": False, "included": answer["task_ids"]}}
        label_studio.admin.call("POST", f"/api/dm/actions?id=delete_tasks&project={project}", json=chosen)
    raise RuntimeError(f"Label Studio stored tasks without their answers {IMPORT_ATTEMPTS} times in a row")


class Watch:
    """Follows Evenhand's list of a project and tells what changed on it."""

    def __init__(self, evenhand: Evenhand, project: int, names: dict[str, str]) -> None:
        self.evenhand = evenhand
        self.project = project
        (ours,) = [row for row in evenhand.get("/api/v1/projects")["rows"] if row["ls_project_id"] == project]
        self.path = f"/api/v1/projects/{ours['id']}"
        self.names = names
        self.run = 0
        self.flagged: list[str] = []
        self.lasting: list[str] = []

    def look(self) -> None:
        """Read the latest finished run, and say what it found if it is a new one."""
        latest = self.evenhand.get(self.path)["latest_run"]
        if latest is None or latest["id"] == self.run:
            return
        self.run = latest["id"]
        rows = self.evenhand.get(f"{self.path}/annotators?flagged=true&limit=200&run={self.run}")["rows"]
        self.flagged = [self.names.get(row["annotator"], row["annotator"]) for row in rows]
        self.lasting = [self.names.get(row["annotator"], row["annotator"]) for row in rows if row["persistent"]]
        listed = ", ".join(f"{name}{'*' if name in self.lasting else ''}" for name in sorted(self.flagged))
        say(f"  run {self.run}: {listed or 'nobody flagged'}")

    def look_for(self, seconds: float) -> None:
        """Keep looking for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(1)

    def settle(self, answers: int) -> None:
        """Wait until every answer has arrived, then for a run that has seen them all."""
        give_up = time.monotonic() + SETTLE_SECONDS
        while self.answers() < answers:
            if time.monotonic() > give_up:
                raise RuntimeError(f"Evenhand holds {self.answers()} of {answers} answers after {SETTLE_SECONDS:.0f} s")
            self.look_for(2)
        self.evenhand.command("run", str(self.project), "--wait")
        self.look()

    def finding(self, name: str) -> str:
        """Return what the latest run says of somebody."""
        return "flagged, lasting" if name in self.lasting else "flagged" if name in self.flagged else "not flagged"

    def answers(self) -> int:
        """Return how many answers Evenhand holds."""
        return int(self.evenhand.get(self.path)["counts"].get("judged", 0))


def let_crowd_answer(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: Crowd, waves: int, pause: float
) -> dict[str, Watch]:
    """Set a project of each design up, let the crowd answer, and return what Evenhand made of it."""
    say(f"signing up {crowd.n_annotators} annotators")
    people = sign_up(label_studio, crowd)
    project = int(label_studio.create_project("Which caption is better?", maximum_annotations=PER_TASK)["id"])
    say(f"connecting project {project}: evenhand connect {project}")
    # The sides of these tasks were assigned by coin flips, which the demo knows and may state.
    options = [
        "--sides",
        "shuffled",
        "--every-minutes",
        "0.1",
        "--publish",
        "predictions,tab,alerts",
        "--names",
        "--yes",
    ]
    print(evenhand.command("connect", str(project), *options).rstrip())
    names = {str(person.id): crowd.email(number).split("@")[0] for number, person in enumerate(people)}
    watch = Watch(evenhand, project, names)
    tasks = list(crowd.tasks(waves * PER_WAVE, PER_TASK))
    say("the crowd answers; flags of each run follow (* = lasting: enough evidence to stay on the list)")
    for wave in range(waves):
        answer_wave(label_studio, project, tasks[wave * PER_WAVE : (wave + 1) * PER_WAVE], people)
        say(f"wave {wave + 1} of {waves}: {(wave + 1) * PER_WAVE * PER_TASK:,} answers given in Label Studio")
        watch.look_for(pause)
    watch.settle(len(tasks) * PER_TASK)
    return {"captions": watch, "unique prompts": show_unique_prompts(label_studio, evenhand, crowd, people)}


def show_unique_prompts(
    label_studio: LabelStudioServer, evenhand: Evenhand, crowd: Crowd, people: Sequence[Person]
) -> Watch:
    """The usual RLHF design: nobody is judged before the owner says how sides were assigned, then it works at once."""
    project = int(label_studio.create_project("Unique prompts, one order each", maximum_annotations=PER_TASK)["id"])
    accounts = [person.id for person in people]
    tasks = list(crowd.unique_tasks(UNIQUE_TASKS, PER_TASK))
    import_answered(label_studio, project, [task.imported(accounts) for task in tasks])
    say(f"the same crowd on {UNIQUE_TASKS} unique prompts, one order per task: evenhand connect {project}")
    print(evenhand.command("connect", str(project), "--sides", "unknown", "--yes").rstrip())
    say("the owner knows that sides were shuffled, and says so")
    print(evenhand.command("connect", str(project), "--sides", "shuffled", "--yes").rstrip())
    names = {str(person.id): crowd.email(number).split("@")[0] for number, person in enumerate(people)}
    watch = Watch(evenhand, project, names)
    watch.settle(len(tasks) * PER_TASK)
    return watch


def report(crowd: Crowd, watches: Mapping[str, Watch]) -> bool:
    """Print what was found in each project against the truth; tell whether it is as good as promised."""
    truth = {crowd.email(person).split("@")[0]: side for person, side in crowd.sides.items()}
    print(f"\n  {'annotator':15s}  {'truth':15s}" + "".join(f"  {title:16s}" for title in watches).rstrip())
    for name in sorted(set(truth).union(*(watch.flagged for watch in watches.values()))):
        said = "".join(f"  {watch.finding(name):16s}" for watch in watches.values()).rstrip()
        print(f"  {name:15s}  {'leans ' + truth[name] if name in truth else 'judges fairly':15s}{said}")
    print()
    outcomes = [_is_good(title, truth, watch) for title, watch in watches.items()]
    return all(outcomes)


def _is_good(title: str, truth: Mapping[str, str], watch: Watch) -> bool:
    """Print how one project went, and tell whether it is as good as promised."""
    right = len(set(truth) & set(watch.flagged))
    wrong = len(set(watch.flagged) - set(truth))
    counts = f"{right} of {len(truth)} biased annotators found, {wrong} of {len(watch.flagged)} flags wrong (q = 0.1)"
    print(f"  {title + ':':15s}  {counts}")
    # With at most seven flags one wrong one is within what q = 0.1 allows on average; missing two would not be.
    return right >= len(truth) - 1 and wrong <= 1


def emptied(folder: Path) -> Path:
    """Return the folder, without what an earlier demo left in it; anything else in it stops the demo."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise SystemExit(f"{folder} holds files that no demo made; name an empty folder with --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; its exit code tells whether the flags agree with the truth."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=0, help="another crowd")
    parser.add_argument("--waves", type=int, default=4, help=f"batches of {PER_WAVE} tasks")
    parser.add_argument("--pause", type=float, default=15.0, help="seconds between batches")
    parser.add_argument("--port", type=int, help="of Evenhand [9090, or a free one]")
    parser.add_argument("--label-studio-port", type=int, help="of Label Studio [8080, or a free one]")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where its data and logs go")
    parser.add_argument("--exit", action="store_true", help="end at once instead of waiting for Ctrl-C")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs start with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    port, label_studio_port = port_or_free(9090, options.port), port_or_free(8080, options.label_studio_port)
    folder = emptied(options.folder.resolve())
    crowd = Crowd.assemble(options.seed)
    try:
        say("starting Label Studio (two minutes the first time, some seconds afterwards)")
        with (
            LabelStudioServer(folder / "label-studio", port=label_studio_port) as label_studio,
            evenhand_serving(label_studio, port, folder) as evenhand,
        ):
            watches = let_crowd_answer(label_studio, evenhand, crowd, options.waves, options.pause)
            is_good = report(crowd, watches)
            print("\n  " + evenhand.command("status").splitlines()[-1])
            print(f"  Label Studio:  {label_studio.url}/projects/  ({ADMIN_EMAIL}, {ADMIN_PASSWORD})")
            print("                 " + ", ".join(f"{title}: project {w.project}" for title, w in watches.items()))
            print("                 open a tab of the captions, or the project “Position bias: …”", flush=True)
            if not options.exit:
                say("Ctrl-C ends both")
                signal.pause()
            return 0 if is_good else 1
    except KeyboardInterrupt:
        say("ended")
        return 0


if __name__ == "__main__":
    sys.exit(main())
