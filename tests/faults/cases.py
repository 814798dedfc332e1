"""The faults: each builds a rig, breaks one thing while people work, repairs it, and asks the questions."""

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.server.worker import LEASE_SECONDS

from harness.postgres import PostgresServer
from tests.faults import real
from tests.faults.crowd import Scrambler
from tests.faults.machine import Clock, fill, new_postgres, remount, small_disk
from tests.faults.rig import Outcome, Rig, wait_for, waited

RATE = 40.0
DAY = 24 * 3600
QUICK_PULL_MINUTES = 0.03
LONG_RUN_DRAWS = 401
TAKEOVER_SECONDS = LEASE_SECONDS + 20.0


@dataclass(frozen=True)
class Setting:
    """Where a fault is tried: an empty folder and a kind of database; and how often it strikes, where that varies."""

    folder: Path
    database: str
    rounds: int = 3


@dataclass(frozen=True)
class Case:
    """A fault by name; `databases` are those it makes sense on, the first being the default."""

    name: str
    what: str
    inject: Callable[[Setting, Outcome], None]
    databases: tuple[str, ...] = ("sqlite", "postgres")


@contextlib.contextmanager
def built(setting: Setting, variables: Mapping[str, str] | None = None, **options: Any) -> Iterator[Rig]:
    """A rig that is not started yet, with its database; `variables` are for the service and the database."""
    postgres = None
    if setting.database == "postgres":
        postgres = new_postgres(setting.folder / "postgres", variables)
    rig = Rig(setting.folder, postgres=postgres, variables=variables, **options)
    try:
        yield rig
    finally:
        rig.close()
        if postgres is not None:
            postgres.drop()


@contextlib.contextmanager
def rig_on(setting: Setting, **options: Any) -> Iterator[Rig]:
    """A started rig with people at work."""
    with built(setting, **options) as rig:
        rig.start()
        rig.crowd.begin(RATE)
        time.sleep(2.0)
        yield rig


def kill_web(setting: Setting, outcome: Outcome) -> None:
    """First the process that serves, then the one that watches over it."""
    with rig_on(setting) as rig:
        for with_master in (False, True):
            master = rig.part("evenhand._wsgi:app")
            rig.kill(*master.children(), *([master] if with_master else []))
            begun = time.monotonic()
            outcome.healthy = max(outcome.healthy, rig.acknowledged_since(begun))
            time.sleep(1.0)
        rig.crowd.end()
        rig.examine(outcome)


def kill_worker(setting: Setting, outcome: Outcome) -> None:
    """In the middle of a run; the run must be carried out by the next worker."""
    with rig_on(setting, draws=LONG_RUN_DRAWS) as rig:
        rig.wait_until_running()
        cut_off = rig.newest_run()["id"]
        begun = time.monotonic()
        rig.kill(rig.part("worker"))
        wait_for("the cut-off run, taken over", lambda: rig._is_done(cut_off), TAKEOVER_SECONDS)
        outcome.healthy = time.monotonic() - begun
        rig.crowd.end()
        rig.examine(outcome)


def kill_everything(setting: Setting, outcome: Outcome) -> None:
    """Supervisor, web and worker at once, then a new start, three times or as often as was asked for."""
    with rig_on(setting) as rig:
        for _ in range(setting.rounds):
            rig.wait_until_running()
            rig.kill_everything()
            begun = time.monotonic()
            rig.service.start()
            outcome.healthy = max(outcome.healthy, rig.acknowledged_since(begun))
            time.sleep(1.0)
        rig.crowd.end()
        rig.examine(outcome)


def kill_postgres(setting: Setting, outcome: Outcome) -> None:
    """kill -9 of the server, two seconds without it, and a new start with crash recovery."""
    _postgres_away(setting, outcome, PostgresServer.kill)


def restart_postgres(setting: Setting, outcome: Outcome) -> None:
    """An administrator's restart: all connections end."""
    _postgres_away(setting, outcome, PostgresServer.stop)


def _postgres_away(setting: Setting, outcome: Outcome, end: Callable[[PostgresServer], None]) -> None:
    with rig_on(setting, draws=LONG_RUN_DRAWS) as rig:
        assert rig.postgres is not None
        rig.wait_until_running()
        end(rig.postgres)
        time.sleep(2.0)
        rig.postgres.start()
        outcome.healthy = rig.acknowledged_since(time.monotonic())
        time.sleep(2.0)
        rig.crowd.end()
        rig.examine(outcome)


def disk_full(setting: Setting, outcome: Outcome) -> None:
    """The database's file system has no byte left (real ENOSPC), then some again."""
    with small_disk(setting.folder / "disk", 24) as disk, rig_on(setting, model_dir=disk) as rig:
        filler = fill(disk)
        refused = wait_for("a refusal", lambda: rig.crowd.ledger.refused.get(503), 20)
        time.sleep(3.0)
        outcome.require(set(rig.crowd.ledger.refused) <= {0, 503}, f"refusals by status: {rig.crowd.ledger.refused}")
        outcome.notes.append(f"events answered 503 while full (first {refused})")
        outcome.require(rig.service.call("GET", "/ready")[0] == 503, "ready on a full disk")
        filler.unlink()
        outcome.healthy = rig.acknowledged_since(time.monotonic())
        time.sleep(1.0)
        rig.crowd.end()
        rig.examine(outcome)


def read_only(setting: Setting, outcome: Outcome) -> None:
    """After a crash the database's file system can only be read: nothing is ready or taken; then all is there."""
    with small_disk(setting.folder / "disk", 64) as disk, rig_on(setting, model_dir=disk) as rig:
        rig.kill_everything()
        rig.crowd.end()
        remount(disk, "ro")
        rig.service.start()
        outcome.require(rig.service.call("GET", "/ready")[0] == 503, "ready on a read-only folder")
        rig.crowd.begin(RATE)
        wait_for("refusals", lambda: rig.crowd.ledger.refused.get(503, 0) > 20, 20)
        rig.crowd.end()
        rig.service.stop()
        remount(disk, "rw")
        outcome.healthy = rig.service.start()
        rig.examine(outcome)


def torn_log(setting: Setting, outcome: Outcome) -> None:
    """Everything dies while SQLite's log is written: its last frame is half there. All acknowledged is before it."""
    with rig_on(setting) as rig:
        rig.kill_everything()
        rig.crowd.end()
        _tear(rig)
        outcome.healthy = rig.service.start()
        rig.examine(outcome)


def _tear(rig: Rig) -> None:
    """Append half a frame and noise to SQLite's log, as a write that was cut off leaves them."""
    wal = rig.database_file.with_name("evenhand.db-wal")
    frame = wal.read_bytes()[32 : 32 + 24 + 4096]
    with wal.open("ab") as file:
        file.write(frame[: len(frame) // 2] + random.Random(5).randbytes(1000))


def cut_log(setting: Setting, outcome: Outcome) -> None:
    """A disk that lied about writing: the second half of SQLite's log is gone. Only a pull heals that."""
    with rig_on(setting) as rig:
        rig.kill_everything()
        rig.crowd.end()
        wal = rig.database_file.with_name("evenhand.db-wal")
        with wal.open("r+b") as file:
            file.truncate(wal.stat().st_size // 2 + 777)
        outcome.healthy = rig.service.start()
        rig.examine(outcome, may_lose=True)


def label_studio_in(mood: str, delay: float = 0.0) -> Callable[[Setting, Outcome], None]:
    """Label Studio in a bad mood for ten seconds, while the worker pulls and publishes all the time."""

    def inject(setting: Setting, outcome: Outcome) -> None:
        with rig_on(setting, reconcile_minutes=QUICK_PULL_MINUTES) as rig:
            rig.stand_in.delay = delay
            _worsen(rig, mood)
            rig.crowd.add_tasks(10)
            rig.service.api("POST", f"/projects/{rig.project_id}/runs", {})
            # Tasks and answers of which no event tells: only the pull can bring them.
            time.sleep(5.0)
            for _ in range(40):
                rig.crowd.change()
            time.sleep(5.0)
            rig.crowd.end()
            outcome.notes.append(f"{rig.stand_in.answered[mood]} calls met it" if mood != "down" else "10 s without it")
            _recover(rig)
            begun = time.monotonic()
            wait_for("a pull", lambda: rig.difference() == 0, 60)
            outcome.healthy = time.monotonic() - begun
            rig.examine(outcome, by_worker=True)

    return inject


def _worsen(rig: Rig, mood: str) -> None:
    if mood == "down":
        rig.stand_in.down()
    rig.stand_in.mood = mood


def _recover(rig: Rig) -> None:
    rig.stand_in.mood = "well"
    rig.stand_in.up()


def clock_jumps(seconds: int) -> Callable[[Setting, Outcome], None]:
    """The machine's clock is set while a worker that then dies holds a run; the database's clock moves too."""

    def inject(setting: Setting, outcome: Outcome) -> None:
        clock = Clock(setting.folder)
        options = {"reconcile_minutes": QUICK_PULL_MINUTES, "draws": LONG_RUN_DRAWS}
        with built(setting, clock.variables, **options) as rig:
            rig.start()
            rig.crowd.begin(RATE)
            rig.wait_until_running()
            cut_off = rig.newest_run()["id"]
            clock.set(seconds)
            rig.kill(rig.part("worker"))
            begun = time.monotonic()
            taken = waited(lambda: rig._is_done(cut_off), TAKEOVER_SECONDS)
            outcome.healthy = time.monotonic() - begun
            outcome.require(taken is not None, "the lease of the dead worker sticks")
            _await_scheduled_run(rig, outcome, cut_off)
            rig.crowd.end()
            rig.examine(outcome, by_worker=True)

    return inject


def _await_scheduled_run(rig: Rig, outcome: Outcome, last: int) -> None:
    """The schedule must go on by itself after the jump."""
    seen = waited(lambda: rig.newest_run()["id"] > last and rig.newest_run()["trigger"] == "schedule", 60)
    outcome.require(seen is not None, "no scheduled run within a minute of the jump")


def label_studio_clock(setting: Setting, outcome: Outcome) -> None:
    """Label Studio's clock ran a day ahead and is set right: later changes carry earlier times than known ones."""
    with built(setting, reconcile_minutes=QUICK_PULL_MINUTES) as rig:
        rig.stand_in.studio.set_clock(DAY)
        rig.crowd.ledger.has_order = False
        rig.start()
        rig.crowd.begin(RATE)
        time.sleep(2.0)
        with rig.stand_in.lock:
            rig.stand_in.studio.set_clock(0)
        time.sleep(3.0)
        rig.crowd.end()
        for _ in range(40):
            rig.crowd.change()
        begun = time.monotonic()
        waited(lambda: rig.difference() == 0, 30)
        outcome.healthy = time.monotonic() - begun
        rig.examine(outcome, by_worker=True)


def scrambled(setting: Setting, outcome: Outcome) -> None:
    """Every event one to three times, in a random order: equal to Label Studio before any pull."""
    with rig_on(setting) as rig:
        scrambler = Scrambler(rig.crowd, seed=3)
        rig.crowd.deliver = scrambler
        time.sleep(8.0)
        begun = time.monotonic()
        rig.crowd.end()
        scrambler.flush()
        outcome.healthy = time.monotonic() - begun
        outcome.notes.append(f"{next(scrambler.delivered)} deliveries")
        lost = rig.crowd.ledger.sent - rig.crowd.ledger.acknowledged
        outcome.require(lost == 0, f"{lost} events were not acknowledged")
        outcome.require(rig.difference() == 0, f"{rig.difference()} annotations differ before any pull")
        rig.examine(outcome)


def one_after_another(setting: Setting, outcome: Outcome) -> None:
    """The short version: scrambled events, web and worker killed, then the database torn or killed, on one service."""
    with rig_on(setting, draws=101) as rig:
        rig.crowd.deliver = scrambler = Scrambler(rig.crowd, seed=3, window=20)
        master = rig.part("evenhand._wsgi:app")
        rig.kill(*master.children(), master)
        begun = time.monotonic()
        outcome.healthy = rig.acknowledged_since(begun)
        rig.wait_until_running()
        rig.kill(rig.part("worker"))
        if rig.postgres is not None:
            rig.postgres.kill()
            rig.postgres.start()
            rig.acknowledged_since(time.monotonic())
        rig.crowd.end()
        scrambler.flush()
        if rig.postgres is None:
            rig.kill_everything()
            _tear(rig)
            rig.service.start()
        rig.examine(outcome)


CASES = (
    Case("kill-web", "kill -9 of the web processes", kill_web),
    Case("kill-worker", "kill -9 of the worker in mid-run", kill_worker),
    Case("kill-everything", "kill -9 of all processes, time and again", kill_everything),
    Case("kill-postgres", "kill -9 of PostgreSQL, 2 s away", kill_postgres, ("postgres",)),
    Case("restart-postgres", "PostgreSQL restarted", restart_postgres, ("postgres",)),
    Case("disk-full", "no byte left on the disk (tmpfs, ENOSPC)", disk_full, ("sqlite",)),
    Case("read-only", "the database's folder can only be read", read_only, ("sqlite",)),
    Case("torn-log", "last frame of SQLite's log half written", torn_log, ("sqlite",)),
    Case("cut-log", "half of SQLite's log destroyed", cut_log, ("sqlite",)),
    Case("label-studio-slow", "Label Studio answers after 2 s", label_studio_in("slow", 2.0)),
    Case("label-studio-down", "Label Studio down for 10 s", label_studio_in("down")),
    Case("label-studio-garbage", "Label Studio answers garbage", label_studio_in("garbage")),
    Case("label-studio-limits", "Label Studio answers 429, Retry-After", label_studio_in("rate-limited")),
    Case("label-studio-5xx", "Label Studio answers 500 to 504", label_studio_in("broken")),
    Case("label-studio-mute", "Label Studio obeys, answers are lost", label_studio_in("answers lost")),
    Case("clock-forward", "clock set a day forward, worker dies in a run", clock_jumps(DAY)),
    Case("clock-back", "clock set a day back, worker dies in a run", clock_jumps(-DAY)),
    Case("label-studio-clock", "Label Studio's clock set a day back", label_studio_clock),
    Case("scrambled-events", "events repeated and reordered", scrambled),
    Case("one-after-another", "events scrambled, web, worker, database in turn", one_after_another),
    Case("real-label-studio", "real Label Studio cut off for 15 s", real.cut_off, ("sqlite",)),
)
