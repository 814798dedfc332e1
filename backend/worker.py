"""The worker: pulls, live evidence, scheduled runs, publishing; any number of workers share one database."""

import contextlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import requests

from backend import notify
from backend.analyse import analyse
from backend.domain import Lease, Project, Run
from backend.errors import BackendError, ConflictError, LeaseLostError, StoreError
from backend.label_studio import LabelStudioClient, client_from_settings
from backend.label_studio_http import LabelStudioError
from backend.live_evidence import LiveDesk
from backend.logs import configure_logging
from backend.publish import publish_project
from backend.reconcile import pull_project
from backend.schedule import has_new_settings, pull_is_due, run_is_due
from backend.settings import Settings
from backend.statistics_cache import Current, StatisticsCache
from backend.store import Store, open_store
from backend.webhooks import ensure_webhook
from fdr_core import FdrCoreError
from fdr_core.live import Consensus

logger = logging.getLogger("backend.worker")

POLL_SECONDS = 0.5
CHORE_POLL_SECONDS = 2.0
#: A dead worker's run is taken over when this has passed without a sign of life.
LEASE_SECONDS = 10.0
HEARTBEAT_SECONDS = 1.0
CHORE_LEASE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 900.0

PublishedState = tuple[int | None, float | None, str, int]


def run_worker(settings: Settings, stop_event: threading.Event) -> None:
    """Work until told to stop: runs in this thread, chores that wait for the network in another."""
    configure_logging(settings.log_level, settings.secrets())
    store = open_store(settings)
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    chores = Chores(store, settings, owner, requests.Session())
    runs = Runs(store, owner)
    thread = threading.Thread(
        target=_repeat, args=(chores.once, stop_event, CHORE_POLL_SECONDS), name="chores", daemon=True
    )
    thread.start()
    _repeat(runs.once, stop_event, POLL_SECONDS)
    thread.join(timeout=3.0)  # a chore that waits for the network is dropped: its lease runs out


def _repeat(once: Callable[[], bool], stop_event: threading.Event, pause: float) -> None:
    """Call until told to stop, at once again while there is work; a database that is away is waited for."""
    while not stop_event.is_set():
        busy = False
        try:
            busy = once()
        except StoreError as error:
            logger.warning("the database does not answer: %s", error)
            stop_event.wait(2.0)
        except Exception:  # the worker must outlive any single piece of work
            logger.exception("unexpected error; going on")
            stop_event.wait(2.0)
        if not busy:
            stop_event.wait(pause)


class Runs:
    """Requests scheduled runs and carries out what waits in the queue, one run per project at a time."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store, self._owner = store, owner
        self._cache = StatisticsCache(store)
        self._desk = LiveDesk(store)
        # Projects where nothing is left to do, by what would have to change: a thousand of them cost one query.
        self._settled: dict[int, tuple[int, int]] = {}

    def once(self) -> bool:
        """Do one round; return whether a run was carried out."""
        for project in self._store.list_projects():
            if self._settled.get(project.id) != (project.seq, project.erased_seq):
                self._watch(project)
        claimed = self._store.claim_run(self._owner, LEASE_SECONDS)
        if claimed is None:
            return False
        self._execute(*claimed)
        return True

    def _watch(self, project: Project) -> None:
        """Advance the live evidence and ask for a run when one is due."""
        now = self._store.clock()
        is_counted = True
        if project.live_seq < project.seq:
            try:
                self._desk.advance(project, now)
            except ConflictError:  # another worker was faster
                is_counted = False
        newest = self._store.latest_run(project.id, status=None)
        done = self._store.latest_run(project.id)
        if self._has_changed(project, done):
            seen = done.seq if done is not None and done.seq is not None else 0
            if run_is_due(project, newest, self._store.count_changes(project.id, seen), now):
                self._store.request_run(project.id, "schedule")
        elif is_counted:
            self._settled[project.id] = (project.seq, project.erased_seq)

    def _has_changed(self, project: Project, done: Run | None) -> bool:
        """Whether what is judged changed since a run; other changes (tasks, skips) advance the sequence number too."""
        seen = done.seq if done is not None and done.seq is not None else 0
        if project.erased_seq > seen:  # an erasure takes answers out without leaving a trace of whose
            return True
        return project.seq > seen and bool(self._store.changes_since(project.id, seen, limit=1))

    def _execute(self, run: Run, lease: Lease) -> None:
        project = self._store.get_project(run.project_id)
        done = self._store.latest_run(project.id)
        if run.trigger != "manual" and not (self._has_changed(project, done) or has_new_settings(project, done)):
            self._store.drop_run(run.id, lease)
            return
        logger.info("run %d of project %d begins (%s)", run.id, project.id, run.trigger)
        try:
            with self._heartbeat(run, lease) as report:
                self._detect(run, lease, project, report)
        except LeaseLostError as error:
            logger.warning("run %d was taken over: %s", run.id, error)
        except FdrCoreError as error:
            self._fail(run, lease, str(error), "change the project's settings as the message says, then run again")
        except StoreError:
            raise
        except Exception:
            logger.exception("run %d failed", run.id)
            message = f"an unexpected error; the worker's log has the details under run {run.id}"
            self._fail(run, lease, message, "report the error with the log; results of earlier runs stay valid")

    def _detect(self, run: Run, lease: Lease, project: Project, report: Callable[[float, str], None]) -> None:
        current = self._cache.catch_up(project)
        with contextlib.suppress(ConflictError):
            self._desk.advance(self._store.get_project(project.id), self._store.clock())
        try:
            result = analyse(self._store, project, current, report)
        except Exception:
            self._cache.forget(project.id)  # whatever went wrong, the next run starts from the stored answers
            raise
        self._store.finish_run(run.id, lease, result)
        self._store.resolve_problem(project.id, "run_failed")
        self._desk.use_consensus(project.id, current.seq, _consensus(current, result.annotators))
        logger.info("run %d of project %d done: %s flagged", run.id, project.id, result.summary["flagged"])

    def _fail(self, run: Run, lease: Lease, message: str, remedy: str) -> None:
        with contextlib.suppress(LeaseLostError):
            self._store.fail_run(run.id, lease, message)
            self._store.raise_problem(run.project_id, "run_failed", f"run {run.id} failed: {message}", remedy)

    @contextlib.contextmanager
    def _heartbeat(self, run: Run, lease: Lease) -> Iterator[Callable[[float, str], None]]:
        """Keep the run's lease while it computes; each sign of life also writes the progress reported last."""
        latest = [(0.0, "reading the answers")]

        def report(share: float, note: str) -> None:
            latest[0] = (share, note)

        with _signs_of_life(
            lambda: self._store.progress_run(run.id, lease, *latest[0], seconds=LEASE_SECONDS), HEARTBEAT_SECONDS
        ):
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
        self._pauses: dict[tuple[str, int], tuple[float, float]] = {}
        self._published: dict[int, PublishedState] = {}
        self._without_webhook: set[int] = set()

    def once(self) -> bool:
        """Do one round of chores; they are never urgent enough to spin."""
        if self._client is not None:
            for project in self._store.list_projects(kinds=("comparison", "alerts")):
                if project.ls_url == self._client.url:
                    self._serve(self._client, project)
        notify.send_due(self._store, self._settings, self._session, self._store.clock())
        return False

    def _serve(self, client: LabelStudioClient, project: Project) -> None:
        now = self._store.clock()
        if pull_is_due(project, self._settings.reconcile_minutes, now) and not self._pausing("pull", project, now):
            self._attempt("pull", project, lambda: self._pull(client, project))
            project = self._store.get_project(project.id)
        if project.id in self._without_webhook and not self._pausing("webhook", project, now):
            self._attempt("webhook", project, lambda: self._install_webhook(client, project))
        state = self._state_to_publish(project)
        needed = project.kind == "comparison" and self._needs_publishing(project, state, now)
        if needed and self._attempt("publish", project, lambda: self._publish(client, project)):
            self._published[project.id] = state

    def _pull(self, client: LabelStudioClient, project: Project) -> bool:
        report = pull_project(self._store, client, project, full=False)
        if project.kind == "comparison" and (report.is_first or report.repaired):
            self._without_webhook.add(project.id)  # events may be missing because nobody sends them
        return True

    def _install_webhook(self, client: LabelStudioClient, project: Project) -> bool:
        ensure_webhook(client, project.ls_project_id, self._settings)
        self._without_webhook.discard(project.id)
        return True

    def _publish(self, client: LabelStudioClient, project: Project) -> bool:
        report = publish_project(self._store, client, project, now=self._store.clock(), settings=self._settings)
        return not report.waiting

    def _needs_publishing(self, project: Project, state: PublishedState, now: float) -> bool:
        is_news = self._published.get(project.id) != state
        return state[0] is not None and is_news and not self._pausing("publish", project, now)

    def _state_to_publish(self, project: Project) -> PublishedState:
        """What publishing depends on; while it stays the same there is nothing to write."""
        latest = self._store.latest_run(project.id)
        decisions = self._store.list_decisions(project.id, limit=1).total
        return (latest.id if latest else None, project.last_pull_at, str(project.config.get("publish")), decisions)

    def _attempt(self, chore: str, project: Project, work: Callable[[], bool]) -> bool:
        """Do it under a lease; a failure becomes a visible problem and a growing pause."""
        with self._exclusive(chore, project.id) as mine:
            if not mine:
                return False
            try:
                done = work()
            except (LabelStudioError, BackendError) as error:
                if isinstance(error, StoreError):
                    raise
                self._pause(chore, project, error)
                return False
        self._pauses.pop((chore, project.id), None)
        self._store.resolve_problem(project.id, f"{chore}_failed")
        return done

    def _pause(self, chore: str, project: Project, error: BackendError) -> None:
        _, last = self._pauses.get((chore, project.id), (0.0, 2.5))
        pause = min(2.0 * last, LONGEST_PAUSE_SECONDS)
        self._pauses[chore, project.id] = (self._store.clock() + pause, pause)
        remedy = getattr(error, "remedy", "`evenhand doctor` names what is wrong and the fix")
        self._store.raise_problem(project.id, f"{chore}_failed", str(error), remedy)
        logger.warning("%s of project %d failed, next try in %.0f s: %s", chore, project.id, pause, error)

    def _pausing(self, chore: str, project: Project, now: float) -> bool:
        until, pause = self._pauses.get((chore, project.id), (0.0, 0.0))
        return now < until <= now + pause  # an end further ahead was written before the clock was set back

    @contextlib.contextmanager
    def _exclusive(self, chore: str, project_id: int) -> Iterator[bool]:
        """A lease kept alive while the chore lasts, so that a dead worker's chores are taken over."""
        lease = self._store.acquire_lease(f"{chore}:{project_id}", self._owner, CHORE_LEASE_SECONDS)
        if lease is None:
            yield False
            return
        try:
            with _signs_of_life(lambda: self._store.renew_lease(lease, CHORE_LEASE_SECONDS), CHORE_LEASE_SECONDS / 3):
                yield True
        finally:
            self._store.release_lease(lease)


def _consensus(current: Current, annotators: Sequence[Mapping[str, Any]]) -> Consensus:
    """The consensus of a finished run, without the bias of the flagged."""
    biases = {row["annotator"]: row["bias"] for row in annotators if row["flagged"]}
    return Consensus(current.statistics, biases)
