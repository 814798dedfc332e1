"""The service with everything around it for one fault, and the questions asked afterwards."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

import psutil
from evenhand.errors import StoreError
from evenhand.label_studio.payloads import ALERT_ANNOTATOR
from evenhand.server.worker import CHORE_POLL_SECONDS
from evenhand.settings import Settings
from evenhand.store import Store, open_store

from harness.postgres import PostgresServer
from harness.service import Service
from harness.stand_in import ALERT_PATH, StandIn
from tests.faults.crowd import Crowd

Rows = dict[int, tuple[int | None, str | None, float | None]]
OUTCOMES = {"left": 1.0, "right": -1.0}
PARAMS = {"sides": "random", "publish": "predictions,tab,alerts", "every_answers": 60}
RECONCILE_SECONDS = 60.0
RUN_SECONDS = 30.0
PUBLISH_SECONDS = 150.0
HEALTHY_SECONDS = 30.0


@dataclass
class Outcome:
    """What was found after one fault."""

    name: str
    database: str
    sent: int = 0
    acknowledged: int = 0
    missing: int = 0
    rows: int = 0
    different: int = 0
    run_seconds: float = 0.0
    published: int = 0
    duplicates: int = 0
    healthy: float = 0.0
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    skipped: str = ""

    def require(self, holds: bool, what: str) -> None:
        """Note a check that failed."""
        if not holds:
            self.failures.append(what)


class Rig:
    """One service, one stand-in, one crowd, in a folder of their own."""

    def __init__(
        self,
        folder: Path,
        *,
        postgres: PostgresServer | None = None,
        variables: Mapping[str, str] | None = None,
        reconcile_minutes: float = 0.0,
        model_dir: Path | None = None,
        seed: int = 11,
        draws: int = 11,
    ) -> None:
        self.folder, self.postgres = folder, postgres
        self.stand_in = StandIn()
        values = {
            "LABEL_STUDIO_URL": self.stand_in.url,
            "LABEL_STUDIO_API_KEY": self.stand_in.token,
            "EVENHAND_ALERT_WEBHOOK_URL": self.stand_in.url + ALERT_PATH,
            "EVENHAND_RECONCILE_MINUTES": f"{reconcile_minutes:g}",
            "MODEL_DIR": str(model_dir or folder),
            "LOG_LEVEL": "INFO",
            # Events without credentials are hints, and an answer to a hint promises nothing.
            "BASIC_AUTH_USER": "lead",
            "BASIC_AUTH_PASS": "l3ad-pass",
            "BASIC_AUTH_ROLE": "owner",
            **({"DATABASE_URL": postgres.url()} if postgres else {}),
            **(variables or {}),
        }
        self.service = Service(folder, values)
        self.service.environment["EVENHAND_PUBLIC_URL"] = f"http://127.0.0.1:{self.service.port}"
        self.crowd = Crowd(self.stand_in, self.service, seed=seed)
        self.params = {**PARAMS, "lbi": f"draws={draws}"}
        self.project_id = 0

    @property
    def database_file(self) -> Path:
        """The SQLite file."""
        return Path(self.service.environment["MODEL_DIR"]) / "evenhand.db"

    def start(self, answers: int = 500) -> None:
        """Answers that were there before, a service, a connected project, and its first run published."""
        self.crowd.answer_before(answers)
        self.service.start()
        described = self.stand_in.studio._one_project(self.crowd.project, query={}, body=None)[1]
        epoch = int(time_of(described["created_at"]))
        body = {"project": f"{self.crowd.project}.{epoch}", "schema": described["label_config"]}
        body |= {"hostname": self.stand_in.url, "extra_params": {}}
        status, answer = self.service.call("POST", "/setup", json.dumps(body).encode(), timeout=60.0)
        assert status == 200, answer
        with self.store() as store:
            self.project_id = store.projects.all()[0].id
        self.service.api("PATCH", f"/projects/{self.project_id}/config", self.params)
        wait_for("the first pull", lambda: len(self.stored()) == answers, 30)
        self.service.api("POST", f"/projects/{self.project_id}/runs", {})
        wait_for("the first publication", self.is_published, 60)

    def close(self) -> None:
        """End everything."""
        self.crowd.end()
        self.service.stop()
        self.service.log.close()
        self.stand_in.down()

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """The service's database, opened beside it by a process with the true clock."""
        store = open_store(Settings.from_env(self.service.environment))
        try:
            yield store
        finally:
            store.close()

    # -- processes

    def part(self, word: str) -> psutil.Process:
        """The web server ('evenhand._wsgi:app') or the worker ('worker')."""
        assert self.service.process is not None
        return wait_for(f"a process {word}", lambda: _child(self.service.process, word), 20)

    def kill(self, *victims: psutil.Process) -> None:
        """kill -9."""
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)
        psutil.wait_procs(victims, timeout=5)

    def kill_everything(self) -> None:
        """kill -9 of supervisor, web and worker."""
        assert self.service.process is not None
        family = self.service.process.children(recursive=True)
        self.kill(self.service.process, *family)

    def wait_until_running(self) -> None:
        """Ask for a run and return as soon as it is under way."""
        wait_for("a run asked for", self._ask_for_a_run, 20)
        wait_for("a run under way", lambda: self.newest_run()["status"] == "running", 20, pause=0.005)

    def _ask_for_a_run(self) -> bool:
        """A service that was killed may not listen yet: an acknowledgement from before can be noted after the kill."""
        try:
            self.service.api("POST", f"/projects/{self.project_id}/runs", {})
        except ConnectionError:
            return False
        return True

    def newest_run(self) -> dict[str, Any]:
        """The newest run as the API shows it."""
        runs = self.service.api("GET", f"/projects/{self.project_id}/runs")
        newest: dict[str, Any] = next(value for value in runs.values() if isinstance(value, list))[0]
        return newest

    def acknowledged_since(self, moment: float, limit: float = HEALTHY_SECONDS) -> float:
        """Seconds from a moment until the service acknowledged an event again."""
        wait_for("an acknowledged event", lambda: self.crowd.ledger.last_acknowledged_at > moment, limit, pause=0.01)
        return self.crowd.ledger.last_acknowledged_at - moment

    # -- questions

    def stored(self) -> Rows:
        """What the service holds, as annotation id to (task, annotator, outcome)."""
        with self.store() as store:
            rows = store.comparisons.rows(self.project_id)
        return {row["annotation_id"]: (row["task_id"], row["annotator_id"], row["outcome"]) for row in rows}

    def exported(self) -> Rows:
        """The same from the stand-in."""
        with self.stand_in.lock:
            rows = [row for row in self.stand_in.studio.annotations.values() if row["project"] == self.crowd.project]
            return {
                row["id"]: (
                    row["task"],
                    str(row["completed_by"]),
                    OUTCOMES[row["result"][0]["value"]["selected"]],
                )
                for row in rows
            }

    def difference(self) -> int:
        """Annotations on which service and stand-in disagree."""
        ours, theirs = self.stored(), self.exported()
        return sum(ours.get(key) != theirs.get(key) for key in {*ours, *theirs})

    def is_published(self) -> bool:
        """Whether every completed task shows one prediction, and whoever is flagged or warned has one card."""
        with self.store() as store:
            flags = {str(flag["annotator_id"]) for flag in store.flags.all(self.project_id)}
            warned = set(store.live.warned(self.project_id))
            states = {record.state for record in store.publications.get(self.project_id).values()}
        with self.stand_in.lock:
            studio = self.stand_in.studio
            shown = [row["task"] for row in studio.predictions.values() if row["project"] == self.crowd.project]
            tasks = [k for k, r in studio.tasks.items() if r["project"] == self.crowd.project and r["is_labeled"]]
            cards = [row["data"][ALERT_ANNOTATOR] for row in studio.tasks.values() if ALERT_ANNOTATOR in row["data"]]
        is_settled = states <= {"done", "intended"}
        return is_settled and bool(flags) and sorted(shown) == sorted(tasks) and sorted(cards) == sorted(flags | warned)

    def examine(self, outcome: Outcome, *, by_worker: bool = False, may_lose: bool = False) -> None:
        """Ask everything that must hold after any fault.

        `by_worker`: wait for the worker's own pull instead of calling `evenhand sync`. `may_lose`: the fault destroyed
        what was written, so that only the pull can bring it back.
        """
        ledger = self.crowd.ledger
        with self.store() as store:
            kept = {row["annotation_id"]: row for row in store.comparisons.rows(self.project_id, include_deleted=True)}
        outcome.sent, outcome.acknowledged = ledger.sent, ledger.acknowledged
        outcome.require(ledger.acknowledged > 0, "no event was acknowledged at all")
        outcome.missing = len(ledger.missing(kept))
        if may_lose:
            outcome.notes.append("missing ones were destroyed with the log, and healed by the pull")
        outcome.require(may_lose or outcome.missing == 0, f"{outcome.missing} acknowledged states are missing")
        if not by_worker:
            self.command("sync")
        settled = waited(lambda: self.difference() == 0, RECONCILE_SECONDS if by_worker else 1.0)
        outcome.rows = len(self.exported())
        outcome.different = 0 if settled is not None else self.difference()
        outcome.require(outcome.different == 0, f"{outcome.different} annotations differ from Label Studio's")
        self._examine_run(outcome)
        self._examine_publications(outcome)

    def _examine_run(self, outcome: Outcome) -> None:
        """A new run must finish soon: a lease that sticks would keep it waiting."""
        begun = time.monotonic()
        wanted = int(self.service.api("POST", f"/projects/{self.project_id}/runs", {})["id"])
        done = waited(lambda: self._is_done(wanted), RUN_SECONDS)
        outcome.run_seconds = time.monotonic() - begun
        outcome.require(done is not None, f"run {wanted} is {self.newest_run()['status']} after {RUN_SECONDS:.0f} s")

    def _is_done(self, run_id: int) -> bool:
        return bool(self.service.api("GET", f"/projects/{self.project_id}/runs/{run_id}")["status"] == "done")

    def _examine_publications(self, outcome: Outcome) -> None:
        """Everything is shown once, whatever was cut off on the way."""
        time.sleep(CHORE_POLL_SECONDS + 1.0)  # the new run's findings are looked at in the next round of chores
        done = waited(self.is_published, PUBLISH_SECONDS)
        outcome.require(done is not None, f"not published within {PUBLISH_SECONDS:.0f} s")
        studio = self.stand_in.studio
        outcome.published, outcome.duplicates = sum(studio.created.values()), len(studio.duplicates)
        outcome.require(not studio.duplicates, f"published twice: {studio.duplicates[:3]}")

    def command(self, *arguments: str) -> str:
        """Run an `evenhand` command beside the service."""
        command = [sys.executable, "-m", "evenhand.cli", *arguments]
        done = subprocess.run(command, env=self.service.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"evenhand {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout


def time_of(text: str) -> float:
    """A time of Label Studio in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def waited(look: Callable[[], Any], seconds: float, *, pause: float = 0.2) -> float | None:
    """Seconds until something true was seen, None if it never was; a service that is away is looked at again."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        with contextlib.suppress(OSError, HTTPException, StoreError, SystemExit):
            if look():
                return time.monotonic() - begun
        time.sleep(pause)
    return None


def wait_for(what: str, look: Callable[[], Any], seconds: float, *, pause: float = 0.05) -> Any:
    """What was seen; an error if it never was."""
    seen: list[Any] = []

    def keep() -> bool:
        seen.append(look())
        return bool(seen[-1])

    if waited(keep, seconds, pause=pause) is None:
        raise RuntimeError(f"not seen within {seconds:g} s: {what}")
    return seen[-1]


def _child(process: psutil.Process | None, word: str) -> psutil.Process | None:
    """A living child that has a word on its command line."""
    for found in process.children() if process is not None else ():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if word in found.cmdline():
                return found
    return None
