"""The worker: pulls, live evidence, scheduled runs, publishing; any number of workers share one database."""

import contextlib
import ctypes
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import requests

from evenhand.domain import Kind, Lease, Project, Run, Trigger
from evenhand.errors import BackendError, ConflictError, LeaseLostError, StoreDamagedError, StoreError
from evenhand.ingest.pull import ProjectGoneError, name_annotators, pull_project
from evenhand.label_studio.client import LabelStudioClient, client_from_settings, ensure_webhook
from evenhand.label_studio.transport import LabelStudioError
from evenhand.logs import configure_logging
from evenhand.projects.reading import resolve_solved
from evenhand.publish import notify, publish_project
from evenhand.runs.live import LiveDesk
from evenhand.runs.run import analyse, tell_stage
from evenhand.runs.schedule import has_new_settings, pull_is_due, run_is_due
from evenhand.runs.statistics import Current, StatisticsCache
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from evenhand.store.runs import DROPPED_WITHOUT_NEWS, INTEGRITY, WHOLE, WORKER_SIGNS, SilentRuns, chore_lease
from fdr_core import FdrCoreError
from fdr_core.live import LiveConsensus

logger = logging.getLogger("evenhand.server.worker")

POLL_SECONDS = 0.5
CHORE_POLL_SECONDS = 2.0
#: A dead worker's run is taken over when this has passed without a sign of life.
LEASE_SECONDS = 10.0
HEARTBEAT_SECONDS = 1.0
#: Between two signs that a worker moves, and between two checks of the whole database.
SIGN_SECONDS, CHECK_SECONDS = 10.0, 3600.0
CHORE_LEASE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 900.0
#: Between two questions whether Label Studio is there, while no other chore is under way; it takes longer to start.
LOOK_SECONDS = 3.0
#: From malloc.h, and the bytes from which a block counts as large: a column of 130,000 answers.
M_MMAP_THRESHOLD, LARGE_BLOCK = -3, 1 << 20
#: A run that was told to stop has so long to reach a place where it can.
STOP_SECONDS = 4.0

ALERTS: tuple[Kind, ...] = ("alerts",)
RUNS_SIGN, CHORES_SIGN = WORKER_SIGNS

PublishedState = tuple[int | None, float | None, str, int, str]


def run_worker(settings: Settings, stop_event: threading.Event) -> None:
    """Work until told to stop: runs in this thread, chores that wait for the network in another."""
    configure_logging(settings.log_level, settings.secrets())
    give_large_blocks_back()
    store = open_store(settings)
    settings = replace(settings, webhook_secret=store.secrets.webhook(settings.webhook_secret))
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    chores = Chores(store, settings, owner, requests.Session())
    runs = Runs(store, owner, stop_event)
    thread = threading.Thread(
        target=_repeat,
        args=(chores.once, stop_event, CHORE_POLL_SECONDS, partial(store.leases.sign, CHORES_SIGN, owner)),
        name="chores",
        daemon=True,
    )
    thread.start()
    threading.Thread(target=_end_late, args=(stop_event, runs.put_back), name="end", daemon=True).start()
    _repeat(runs.once, stop_event, POLL_SECONDS, partial(store.leases.sign, RUNS_SIGN, owner))
    thread.join(timeout=3.0)  # a chore that waits for the network is dropped: its lease runs out


def give_large_blocks_back() -> None:
    """Let glibc return large arrays to the system when they are freed; it would keep room for several of them."""
    with contextlib.suppress(OSError, AttributeError):  # another C library: it has its own ways
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def _end_late(stop_event: threading.Event, put_back: Callable[[], None]) -> None:
    """End the process where a run does not look up in time; the run goes back to the queue and is repeated."""
    stop_event.wait()
    time.sleep(STOP_SECONDS)
    logger.warning("the run under way did not stop by itself; it is put back into the queue")
    with contextlib.suppress(BackendError):
        put_back()
    os._exit(0)


def _repeat(once: Callable[[], bool], stop_event: threading.Event, pause: float, sign: Callable[[], object]) -> None:
    """Call until told to stop, at once again while there is work; while the database is away it waits.

    What went well leaves a sign of life now and then; long work leaves it meanwhile.
    """
    signed_at = float("-inf")
    while not stop_event.is_set():
        busy = False
        try:
            busy = once()
            if time.monotonic() - signed_at >= SIGN_SECONDS:
                sign()
                signed_at = time.monotonic()
        except StoreError as error:
            logger.warning("the database does not answer: %s", error)
            stop_event.wait(2.0)
        except Exception:  # the worker must outlive any single piece of work
            logger.exception("unexpected error; going on")
            stop_event.wait(2.0)
        if not busy:
            stop_event.wait(pause)


class _StoppedError(Exception):
    """The worker was told to end while it worked on a run."""


class Runs:
    """Requests scheduled runs and carries out what waits in the queue, one run per project at a time."""

    def __init__(self, store: Store, owner: str, stop_event: threading.Event | None = None) -> None:
        self._store, self._owner = store, owner
        self._stop_event = stop_event or threading.Event()
        self._under_way: tuple[Run, Lease] | None = None
        self._cache = StatisticsCache(store)
        self._desk = LiveDesk(store)
        # Projects where nothing is left to do, by what would have to change: a thousand of them cost one query.
        self._settled: dict[int, tuple[int, int]] = {}

    def once(self) -> bool:
        """Do one round; return whether there is more to do at once: a run was carried out, or evidence lags behind."""
        is_behind = False
        for project in self._store.projects.all():
            if self._settled.get(project.id) != (project.seq, project.erased_seq):
                is_behind |= self._watch(project)
        claimed = self._store.runs.claim(self._owner, LEASE_SECONDS)
        if claimed is None:
            return is_behind
        self._execute(*claimed)
        return True

    def _watch(self, project: Project) -> bool:
        """Advance the live evidence by a piece and ask for a run when one is due; whether evidence lags behind."""
        now = self._store.clock()
        is_counted = True
        if project.live_seq < project.seq:
            try:
                if self._desk.advance(project, now) or self._needs_audit(project):
                    self._store.runs.request(project.id, Trigger.WARNING)
            except ConflictError:  # another worker was faster
                is_counted = False
            counted = self._store.projects.get(project.id).live_seq
            is_counted &= not self._store.comparisons.changes_since(project.id, counted, limit=1)
        newest = self._store.runs.latest(project.id, status=None)
        done = self._store.runs.latest(project.id)
        if self._has_changed(project, done):
            seen = done.seq if done is not None and done.seq is not None else 0
            if run_is_due(project, newest, self._store.comparisons.count_since(project.id, seen), now):
                self._store.runs.request(project.id, Trigger.SCHEDULE)
        elif is_counted:
            self._settled[project.id] = (project.seq, project.erased_seq)
        return not is_counted

    def _needs_audit(self, project: Project) -> bool:
        """Whether a warning waits for an audit: the first one, or one on twice as many answers as the last."""
        if not self._desk.waits_for_an_audit(project.id):
            return False
        newest = self._store.runs.latest(project.id, status=None)
        if newest is None:
            return True
        seen = newest.seq or 0
        fresh = self._store.comparisons.count_since(project.id, seen)
        return newest.status == "done" and 2 * fresh >= project.counts.get("judged", 0)

    def _has_changed(self, project: Project, done: Run | None) -> bool:
        """Whether what is judged changed since a run; other changes (tasks, skips) advance the sequence number too."""
        seen = done.seq if done is not None and done.seq is not None else 0
        if project.erased_seq > seen:  # an erasure takes answers out without a trace of whose they were
            return True
        return project.seq > seen and bool(self._store.comparisons.changes_since(project.id, seen, limit=1))

    def _execute(self, run: Run, lease: Lease) -> None:
        project = self._store.projects.get(run.project_id)
        done = self._store.runs.latest(project.id)
        if run.trigger in DROPPED_WITHOUT_NEWS and not (
            self._has_changed(project, done) or has_new_settings(project, done)
        ):
            self._store.runs.drop(run.id, lease)
            return
        logger.info("run %d of project %d begins (%s)", run.id, project.id, run.trigger)
        self._under_way = (run, lease)
        try:
            with self._heartbeat(run, lease) as report:
                self._detect(run, lease, project, report)
        except _StoppedError:
            self.put_back()
            logger.info("run %d stops with the worker and waits for the next one", run.id)
        except LeaseLostError as error:
            logger.warning("run %d was taken over: %s", run.id, error)
        except FdrCoreError as error:
            self._fail(run, lease, str(error), "change the project's settings as the message says, then run again")
        except StoreDamagedError as error:
            self._fail(run, lease, str(error), "stop the service and restore a backup; `evenhand doctor` says more")
            raise
        except StoreError:
            raise
        except Exception:
            logger.exception("run %d failed", run.id)
            message = f"an unexpected error; the worker's log has the details under run {run.id}"
            self._fail(run, lease, message, "report the error with the log; results of earlier runs stay valid")
        finally:
            self._under_way = None

    def put_back(self) -> None:
        """Return the run under way to the queue, so that the next worker need not wait for its lease to end."""
        if self._under_way is not None:
            self._store.runs.put_back(self._under_way[0].id, self._under_way[1])

    def _detect(self, run: Run, lease: Lease, project: Project, report: Callable[[float, str], None]) -> None:
        current = self._cache.catch_up(project, partial(tell_stage, report))
        with contextlib.suppress(ConflictError):
            self._desk.advance(self._store.projects.get(project.id), self._store.clock())
        self._desk.forget_consensus(project.id)
        try:
            result = analyse(self._store, project, current, report)
        except Exception:
            self._cache.forget(project.id)  # whatever went wrong, the next run starts from the stored answers
            raise
        self._store.runs.finish(run.id, lease, result)
        self._store.problems.resolve(project.id, "run_failed")
        self._desk.use_consensus(project.id, current.seq, _consensus(current, result.annotators))
        logger.info("run %d of project %d done: %s flagged", run.id, project.id, result.summary["flagged"])

    def _fail(self, run: Run, lease: Lease, message: str, remedy: str) -> None:
        with contextlib.suppress(LeaseLostError):
            self._store.runs.fail(run.id, lease, message)
            self._store.problems.open(run.project_id, "run_failed", f"run {run.id} failed: {message}", remedy)

    @contextlib.contextmanager
    def _heartbeat(self, run: Run, lease: Lease) -> Iterator[Callable[[float, str], None]]:
        """Keep the run's lease while it computes; each sign of life also writes the progress reported last."""
        latest = [(0.0, "reading the answers")]

        def report(share: float, note: str) -> None:
            if self._stop_event.is_set():
                raise _StoppedError
            latest[0] = (max(share, latest[0][0]), note)

        def beat() -> None:
            self._store.runs.progress(run.id, lease, *latest[0], seconds=LEASE_SECONDS)
            self._store.leases.sign(RUNS_SIGN, self._owner)

        with _signs_of_life(beat, HEARTBEAT_SECONDS):
            yield report


@contextlib.contextmanager
def _signs_of_life(renew: Callable[[], object], every: float) -> Iterator[None]:
    """Renew a lease from a thread while the work under it lasts; a lost one is noticed by whoever finishes."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(every):
            try:
                renew()
            except LeaseLostError:
                return
            except BackendError as error:
                logger.warning("a lease could not be renewed: %s", error)

    thread = threading.Thread(target=beat, name="signs-of-life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Chores:
    """Work that waits for the network: pulls, publishing, notifications; each under a lease of its own."""

    def __init__(self, store: Store, settings: Settings, owner: str, session: requests.Session) -> None:
        self._store, self._settings, self._owner, self._session = store, settings, owner, session
        self._client = client_from_settings(settings, session)
        self._looking = self._client.hurried() if self._client is not None else None
        self._pauses: dict[tuple[str, int], tuple[float, float]] = {}
        self._published: dict[int, PublishedState] = {}
        self._without_webhook: set[int] = set()
        self._nameless: dict[int, set[str]] = {}
        # Pulls before this moment are of the past: the worker, or Label Studio, was away since.
        self._read_from = store.clock()
        self._is_up, self._next_look = True, 0.0
        self._silent = SilentRuns(store.database)

    def once(self) -> bool:
        """Do one round of chores; they are never urgent enough to spin."""
        self._silent.end()
        self._check_database()
        if self._client is not None:
            self._notice_return()
            for project in self._store.projects.all(kinds=("comparison", "alerts")):
                if project.ls_url == self._client.url:
                    self._serve(self._client, project)
        resolve_solved(self._store)
        notify.send_due(self._store, self._settings, self._session, self._store.clock())
        return False

    def _check_database(self) -> None:
        """Look through the whole database once an hour, whichever worker comes first."""
        last = self._store.leases.signs().get(INTEGRITY)
        if last is not None and 0.0 <= last[1] < CHECK_SECONDS:
            return
        damage = self._store.database.damage(full=False)
        self._store.leases.sign(INTEGRITY, damage or WHOLE)
        if damage is None:
            self._store.problems.resolve(None, "database_damaged")
            return
        logger.error("the database is damaged: %s", damage)
        remedy = (
            "Stop the service, keep the file, and restore a backup (`evenhand restore`); the next pull adds the rest."
        )
        self._store.problems.open(None, "database_damaged", f"the database is damaged: {damage}", remedy)

    def _notice_return(self) -> None:
        """Ask now and then whether Label Studio is there; when it comes back everything is read again at once."""
        now = self._store.clock()
        if now < self._next_look <= now + LOOK_SECONDS:
            return
        was_up, self._is_up = self._is_up, self._looking is None or self._looking.is_up()
        self._next_look = now + LOOK_SECONDS
        if self._is_up and not was_up:
            logger.info("Label Studio is back; all projects are pulled")
            self._read_from = now
            self._pauses.clear()

    def _serve(self, client: LabelStudioClient, project: Project) -> None:
        now = self._store.clock()
        is_due = pull_is_due(project, self._settings.reconcile_minutes, now) or self._is_of_the_past(project)
        if is_due and not self._pausing("pull", project, now):
            self._attempt("pull", project, lambda: self._pull(client, project))
            project = self._store.projects.get(project.id)
        if project.id in self._without_webhook and not self._pausing("webhook", project, now):
            self._attempt("webhook", project, lambda: self._install_webhook(client, project))
        if project.kind == "comparison" and self._newcomers(project) and not self._pausing("names", project, now):
            self._attempt("names", project, lambda: self._name_newcomers(client, project))
        state = self._state_to_publish(project)
        needed = project.kind == "comparison" and self._needs_publishing(project, state, now)
        if needed and self._attempt("publish", project, lambda: self._publish(client, project)):
            self._published[project.id] = state

    def _is_of_the_past(self, project: Project) -> bool:
        """Whether a project was last read before this worker started, or before Label Studio came back."""
        return project.last_pull_at is not None and project.last_pull_at < self._read_from

    def _newcomers(self, project: Project) -> set[str]:
        """Annotators without a name whom Label Studio was not asked about yet."""
        return self._store.annotators.unnamed(project.id) - self._nameless.get(project.id, set())

    def _name_newcomers(self, client: LabelStudioClient, project: Project) -> bool:
        newcomers = self._newcomers(project)
        name_annotators(self._store, client, project)
        self._nameless[project.id] = self._nameless.get(project.id, set()) | newcomers
        return True

    def _pull(self, client: LabelStudioClient, project: Project) -> bool:
        try:
            report = pull_project(self._store, client, project, full=False)
        except ProjectGoneError:
            if project.kind != "alerts":
                raise
            # Somebody deleted the cards; publishing makes them anew.
            self._store.projects.mark_deleted(project.id)
            self._published.pop(project.alerts_for or 0, None)
            return True
        if project.kind == "comparison" and (report.is_first or report.repaired):
            if not project.config.get("pull_only"):
                self._without_webhook.add(project.id)  # events may be missing because nobody sends them
        elif project.kind == "comparison":
            self._store.problems.resolve(project.id, "webhook_gone")
        return True

    def _install_webhook(self, client: LabelStudioClient, project: Project) -> bool:
        is_changed = ensure_webhook(client, project.ls_project_id, self._settings)
        self._without_webhook.discard(project.id)
        if is_changed and project.last_event_at is not None:
            message = "the webhook had gone from Label Studio, or was changed there; it was put back"
            remedy = (
                "Nothing is lost: the pull read what events had not told. Ask who takes webhooks away if it repeats."
            )
            self._store.problems.open(project.id, "webhook_gone", message, remedy)
        return True

    def _publish(self, client: LabelStudioClient, project: Project) -> bool:
        report = publish_project(self._store, client, project, now=self._store.clock(), settings=self._settings)
        return not report.waiting

    def _needs_publishing(self, project: Project, state: PublishedState, now: float) -> bool:
        is_news = self._published.get(project.id) != state
        return state[0] is not None and is_news and not self._pausing("publish", project, now)

    def _state_to_publish(self, project: Project) -> PublishedState:
        """What publishing depends on; while it stays the same there is nothing to write."""
        latest = self._store.runs.latest(project.id)
        decisions = self._store.decisions.page(project.id, limit=1).total
        cards = self._store.projects.all(kinds=ALERTS)
        alerts = [entry.last_event_at for entry in cards if entry.alerts_for == project.id]
        publish, warned = str(project.config.get("publish")), ",".join(self._store.live.warned(project.id))
        return (latest.id if latest else None, project.last_pull_at, publish, decisions, f"{warned} {alerts}")

    def _attempt(self, chore: str, project: Project, work: Callable[[], bool]) -> bool:
        """Do it under a lease; a failure becomes a visible problem and a growing pause."""
        with self._exclusive(chore, project.id) as mine:
            if not mine or not self._store.projects.is_served(project.id):
                return False  # somebody else does it, or the project was let go since it was listed
            try:
                done = work()
            except (LabelStudioError, BackendError) as error:
                if isinstance(error, StoreError):
                    raise
                self._pause(chore, project, error)
                return False
        self._pauses.pop((chore, project.id), None)
        self._store.problems.resolve(project.id, f"{chore}_failed")
        return done

    def _pause(self, chore: str, project: Project, error: BackendError) -> None:
        _, last = self._pauses.get((chore, project.id), (0.0, 2.5))
        pause = min(2.0 * last, LONGEST_PAUSE_SECONDS)
        self._pauses[chore, project.id] = (self._store.clock() + pause, pause)
        remedy = getattr(error, "remedy", "`evenhand doctor` names what is wrong and the fix")
        self._store.problems.open(project.id, f"{chore}_failed", str(error), remedy)
        logger.warning("%s of project %d failed, next try in %.0f s: %s", chore, project.id, pause, error)

    def _pausing(self, chore: str, project: Project, now: float) -> bool:
        until, pause = self._pauses.get((chore, project.id), (0.0, 0.0))
        return now < until <= now + pause  # an end further ahead was written before the clock was set back

    def _renew(self, lease: Lease) -> None:
        self._store.leases.renew(lease, CHORE_LEASE_SECONDS)
        self._store.leases.sign(CHORES_SIGN, self._owner)

    @contextlib.contextmanager
    def _exclusive(self, chore: str, project_id: int) -> Iterator[bool]:
        """A lease kept alive while the chore lasts, so that a dead worker's chores are taken over."""
        lease = self._store.leases.acquire(chore_lease(chore, project_id), self._owner, CHORE_LEASE_SECONDS)
        if lease is None:
            yield False
            return
        try:
            with _signs_of_life(partial(self._renew, lease), CHORE_LEASE_SECONDS / 3):
                yield True
        finally:
            self._store.leases.release(lease)


def _consensus(current: Current, annotators: Sequence[Mapping[str, Any]]) -> LiveConsensus:
    """The consensus of a finished run, without the bias of the flagged."""
    biases = {row["annotator"]: row["bias"] for row in annotators if row["flagged"]}
    return LiveConsensus(current.statistics, biases)
