"""Runs: requested, claimed by one worker at a time under a lease, stored whole with their annotators and items."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Text,
    and_,
    cast,
    delete,
    func,
    literal,
    select,
    update,
)

from evenhand.domain import Lease, Page, Run, RunResult, Trigger
from evenhand.errors import LeaseLostError, NotFoundError, StoreBusyError, StoreError
from evenhand.store.annotators import FlagStore, SpendingStore
from evenhand.store.database import Aggregate, Database, page, project_row
from evenhand.store.engine import ReadyJson, now
from evenhand.store.results import FindingStore, RankingStore, ReadyRows
from evenhand.store.schema import leases, run_paths, runs

#: No lease is given for longer. One that ends later was written before the clock was set back, and holds nobody up.
LONGEST_SECONDS = 300.0
POLL_SECONDS = 0.1
#: Signs of life stand beside the leases: like them they are of the moment, and in no backup.
SIGN = "sign:"
#: What a check of the whole database found; and what a worker's two parts sign with.
INTEGRITY, WHOLE = "integrity", "whole"
WORKER_SIGNS = ("worker runs", "worker chores")
#: A worker leaves a sign every ten seconds.
STILL_SECONDS = 60.0

#: What a worker does for a project beside runs, each under a lease of its own.
CHORES = ("pull", "webhook", "names", "publish")


def chore_lease(chore: str, project_id: int) -> str:
    """The name of the lease under which a chore of a project is done."""
    return f"{chore}:{project_id}"


def is_held(moment: float) -> ColumnElement[bool]:
    """The condition that a lease is in force."""
    return and_(leases.c.expires_at > moment, leases.c.expires_at <= moment + LONGEST_SECONDS)


def moves(signs: Mapping[str, tuple[str, float]]) -> bool:
    """Whether both parts of a worker, runs and chores, gave a sign of life within a minute."""
    return all(abs(signs.get(name, ("", float("inf")))[1]) <= STILL_SECONDS for name in WORKER_SIGNS)


class LeaseStore(Aggregate):
    """Acquiring, renewing and releasing leases."""

    def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take the lease if it is free, expired or already ours; None if somebody else holds it."""
        with self._database.write() as connection:
            return self.acquire_in(connection, name, owner, seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Hold the lease for `seconds` more; raises LeaseLostError if it was taken over."""
        with self._database.write() as connection:
            return self.renew_in(connection, lease, seconds)

    def release(self, lease: Lease) -> None:
        """Give the lease back; harmless if it was lost. The token keeps growing, so the row stays."""
        with self._database.write() as connection:
            self.end_in(connection, lease)

    @contextmanager
    def without_chores(self, project_id: int, owner: str, *, patience: float = 60.0) -> Iterator[None]:
        """Keep workers away from a project: what they are doing for it is waited for, and nothing new begins."""
        deadline = time.monotonic() + patience
        with ExitStack() as held:
            for name in (chore_lease(chore, project_id) for chore in CHORES):
                while (lease := self.acquire(name, owner, LONGEST_SECONDS)) is None:
                    if time.monotonic() > deadline:
                        raise StoreBusyError(f"a worker was busy with {name!r} for {patience:.0f} s; try again later")
                    time.sleep(POLL_SECONDS)
                held.callback(self.release, lease)
            yield

    def sign(self, name: str, text: str) -> None:
        """Leave a sign of life, with the database's time, and read it back; raises StoreError."""
        with self._database.write() as connection:
            row = {"name": SIGN + name, "owner": text[:1000], "token": 0, "expires_at": now(connection)}
            connection.execute(self._database.upsert(leases), [row])
            mine = (leases.c.name == row["name"], leases.c.owner == row["owner"])
            if connection.execute(select(leases.c.token).where(*mine)).first() is None:
                raise StoreError("the database did not hold what was written a moment ago")

    def signs(self) -> dict[str, tuple[str, float]]:
        """The last sign of each name: its text, and its age in seconds."""
        query = select(leases).where(leases.c.name.startswith(SIGN))
        with self._database.read() as connection:
            moment = now(connection)
            return {
                row.name.removeprefix(SIGN): (row.owner, moment - row.expires_at) for row in connection.execute(query)
            }

    def acquire_in(self, connection: Connection, name: str, owner: str, seconds: float) -> Lease | None:
        """Take the lease within a transaction; concurrent takers of one name wait for each other on its row."""
        # The row exists before it is locked: otherwise, of two processes that meet on a new name, one would fail.
        fresh = {"name": name, "owner": "", "token": 0, "expires_at": 0.0}
        connection.execute(self._database.insert(leases).values(**fresh).on_conflict_do_nothing())
        row = connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one()
        moment = now(connection)
        if moment < row.expires_at <= moment + LONGEST_SECONDS and row.owner != owner:
            return None
        lease = Lease(name, owner, row.token + 1, moment + min(seconds, LONGEST_SECONDS))
        connection.execute(
            update(leases)
            .where(leases.c.name == name)
            .values(owner=owner, token=lease.token, expires_at=lease.expires_at)
        )
        return lease

    def renew_in(self, connection: Connection, lease: Lease, seconds: float) -> Lease:
        """Hold a lease that is still ours for `seconds` more."""
        self.check_in(connection, lease)
        expires_at = now(connection) + min(seconds, LONGEST_SECONDS)
        connection.execute(update(leases).where(leases.c.name == lease.name).values(expires_at=expires_at))
        return Lease(lease.name, lease.owner, lease.token, expires_at)

    def end_in(self, connection: Connection, lease: Lease) -> None:
        """Let a lease that is still ours expire at once."""
        connection.execute(
            update(leases)
            .where(leases.c.name == lease.name, leases.c.owner == lease.owner, leases.c.token == lease.token)
            .values(expires_at=0.0)
        )

    def check_in(self, connection: Connection, lease: Lease) -> None:
        """Refuse to go on under a lease that was taken over; an expired but untaken one is still ours."""
        row = connection.execute(select(leases).where(leases.c.name == lease.name).with_for_update()).first()
        if row is None or row.owner != lease.owner or row.token != lease.token:
            raise LeaseLostError(f"lease {lease.name!r} was taken over; drop this work, its successor does it again")


MAX_ATTEMPTS = 5
#: A worker renews its run's lease each second, and another one takes a dead one's run over after ten.
SILENT_SECONDS = 60.0
#: Runs that the service itself asked for; they are dropped where nothing is new, what people ask for never is.
DROPPED_WITHOUT_NEWS = (Trigger.SCHEDULE, Trigger.WARNING, Trigger.ERASURE)


class RunStore(Aggregate):
    """The queue of runs and their results."""

    def __init__(
        self,
        database: Database,
        leases: LeaseStore,
        findings: FindingStore,
        rankings: RankingStore,
        flags: FlagStore,
        spending: SpendingStore,
    ) -> None:
        super().__init__(database)
        self._leases, self._findings, self._rankings = leases, findings, rankings
        self._flags, self._spending = flags, spending

    def request(self, project_id: int, trigger: Trigger, requested_by: str | None = None) -> Run:
        """Ask for a run; one that still waits stands for all requests, and becomes the person's who asks."""
        waiting = select(runs).where(runs.c.project_id == project_id, runs.c.status == "queued")
        with self._database.write() as connection:
            # The project's row serialises requests, so that two of them cannot both find an empty queue.
            project_row(connection, project_id, lock=True)
            row = connection.execute(waiting.limit(1)).first()
            if row is None:
                values = {"status": "queued", "trigger": trigger.value, "requested_by": requested_by, "attempts": 0}
                insert = runs.insert().values(project_id=project_id, requested_at=self._database.clock(), **values)
                key = connection.execute(insert).inserted_primary_key
                row = connection.execute(select(runs).where(runs.c.id == (key or (0,))[0])).one()
            elif row.trigger in DROPPED_WITHOUT_NEWS and trigger not in DROPPED_WITHOUT_NEWS:
                _set(connection, row.id, trigger=trigger.value, requested_by=requested_by)
                row = connection.execute(select(runs).where(runs.c.id == row.id)).one()
            return _run(row)

    def claim(self, owner: str, seconds: float) -> tuple[Run, Lease] | None:
        """Take the oldest waiting run whose project nobody works on, with the lease `run:<project>`.

        Runs whose worker died (lease expired) are taken over; after MAX_ATTEMPTS tries they fail.
        """
        with self._database.write() as connection:
            for row in connection.execute(_open_runs(now(connection))).all():
                lease = self._leases.acquire_in(connection, f"run:{row.project_id}", owner, seconds)
                if lease is None:
                    continue
                # Read again under the lease: the run may have been finished while we waited for it.
                current = connection.execute(select(runs).where(runs.c.id == row.id).with_for_update()).one()
                if current.status not in ("queued", "running"):
                    continue
                if current.attempts >= MAX_ATTEMPTS:
                    message = f"gave up after {MAX_ATTEMPTS} attempts; the worker died each time, see its log"
                    _set(connection, row.id, status="failed", error=message, finished_at=self._database.clock())
                    continue
                _set(
                    connection,
                    row.id,
                    status="running",
                    started_at=self._database.clock(),
                    attempts=current.attempts + 1,
                    progress=0.0,
                    progress_note=None,
                )
                return _run(connection.execute(select(runs).where(runs.c.id == row.id)).one()), lease
        return None

    def progress(self, run_id: int, lease: Lease, share: float, note: str = "", *, seconds: float = 60.0) -> Lease:
        """Report progress in [0, 1] and renew the lease in one go; raises LeaseLostError."""
        with self._database.write() as connection:
            self._running(connection, run_id, lease)  # a late sign of life must not take the lease back
            renewed = self._leases.renew_in(connection, lease, seconds)
            _set(connection, run_id, progress=share, progress_note=note)
            return renewed

    def finish(self, run_id: int, lease: Lease, result: RunResult) -> Run:
        """Store a run whole, replace the project's lasting flags if given, and release the lease."""
        # Made before the transaction: events would wait for it, and a worker has no priority over anything.
        ready = [
            self._findings.ready(run_id, result.annotators),
            *self._rankings.ready(run_id, result.items, result.order_changes),
        ]
        if result.path is not None:
            ready.append(ReadyRows.of(run_paths, run_id, [{"path": ReadyJson.of(result.path)}]))
        with self._database.write() as connection:
            row = self._running(connection, run_id, lease)
            scalars = ("seq", "seed", "config", "versions", "audit", "guarantee", "summary", "timings", "data_hash")
            _set(
                connection,
                run_id,
                status="done",
                finished_at=self._database.clock(),
                progress=1.0,
                error=None,
                model_version=f"evenhand-{run_id}",
                **{name: getattr(result, name) for name in scalars},
            )
            for rows in ready:
                rows.store_in(connection)
            if result.flags is not None:
                self._flags.replace_in(connection, row.project_id, run_id, result.flags)
            self._spending.store_in(connection, row.project_id, result.spending)
            self._leases.end_in(connection, lease)
        return self.get(run_id)

    def fail(self, run_id: int, lease: Lease, error: str) -> None:
        """Record why a run failed and release the lease."""
        with self._database.write() as connection:
            self._running(connection, run_id, lease)
            _set(connection, run_id, status="failed", error=error[:5000], finished_at=self._database.clock())
            self._leases.end_in(connection, lease)

    def put_back(self, run_id: int, lease: Lease) -> None:
        """Let a run that was cut off wait again, as if it had not begun; raises LeaseLostError."""
        with self._database.write() as connection:
            row = self._running(connection, run_id, lease)
            _set(
                connection,
                run_id,
                status="queued",
                started_at=None,
                attempts=max(0, row.attempts - 1),
                progress=None,
                progress_note=None,
            )
            self._leases.end_in(connection, lease)

    def drop(self, run_id: int, lease: Lease) -> None:
        """Forget a run that found nothing to do (no change since the last one)."""
        with self._database.write() as connection:
            self._running(connection, run_id, lease)
            connection.execute(delete(runs).where(runs.c.id == run_id))
            self._leases.end_in(connection, lease)

    def get(self, run_id: int, *, project_id: int | None = None) -> Run:
        """One run, of this project if given; raises NotFoundError."""
        query = select(runs).where(runs.c.id == run_id)
        if project_id is not None:
            query = query.where(runs.c.project_id == project_id)
        row = self._database.fetch(query).first()
        if row is None:
            raise NotFoundError(f"run {run_id} does not exist; the project's runs are listed under /runs")
        return _run(row)

    def latest(self, project_id: int, *, status: str | None = "done") -> Run | None:
        """The newest run with this status (any, if None)."""
        query = select(runs).where(runs.c.project_id == project_id)
        return self._newest(query if status is None else query.where(runs.c.status == status))

    def before(self, run: Run) -> Run | None:
        """The finished run before this one."""
        mine = (runs.c.project_id == run.project_id, runs.c.id < run.id, runs.c.status == "done")
        return self._newest(select(runs).where(*mine))

    def _newest(self, query: Any) -> Run | None:
        row = self._database.fetch(query.order_by(runs.c.id.desc()).limit(1)).first()
        return _run(row) if row else None

    def page(self, project_id: int, *, limit: int = 50, cursor: str | None = None) -> Page:
        """A page of runs, newest first."""
        query = select(runs).where(runs.c.project_id == project_id)
        with self._database.read() as connection:
            return page(connection, query, [(runs.c.id, True)], limit=limit, cursor=cursor)

    def model_versions(self, project_id: int | None = None, *, limit: int = 20) -> list[str]:
        """Versions of the latest finished runs, newest first."""
        query = select(runs.c.model_version).where(runs.c.status == "done", runs.c.model_version.is_not(None))
        query = query if project_id is None else query.where(runs.c.project_id == project_id)
        return list(self._database.fetch(query.order_by(runs.c.id.desc()).limit(limit)).scalars())

    def queue_age(self) -> float:
        """Seconds the oldest waiting run has been waiting; 0 if none waits."""
        query = select(func.min(runs.c.requested_at)).where(runs.c.status == "queued")
        oldest = self._database.fetch(query).scalar_one()
        return max(0.0, self._database.clock() - oldest) if oldest is not None else 0.0

    def counts(self) -> list[dict[str, Any]]:
        """Per status: number of runs and seconds they took."""
        spent = func.coalesce(func.sum(runs.c.finished_at - runs.c.started_at), 0.0)
        query = select(runs.c.status, func.count().label("count"), spent.label("seconds")).group_by(runs.c.status)
        return [dict(row) for row in self._database.fetch(query).mappings()]

    def path(self, run_id: int) -> Mapping[str, Any] | None:
        """The regularisation path of a run, for plots."""
        found = self._database.fetch(select(run_paths.c.path).where(run_paths.c.run_id == run_id)).scalar()
        return found if found is None else dict(found)

    def _running(self, connection: Connection, run_id: int, lease: Lease) -> Any:
        """The run's row if it is still ours to finish."""
        self._leases.check_in(connection, lease)
        row = connection.execute(select(runs).where(runs.c.id == run_id).with_for_update()).first()
        if row is None or row.status != "running" or lease.name != f"run:{row.project_id}":
            raise LeaseLostError(f"run {run_id} is no longer running under this lease; drop the result")
        return row


class SilentRuns:
    """Ends runs that gave no sign of life for a minute, as this process saw it: the clocks of others may jump."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._seen: dict[int, tuple[Any, float]] = {}

    def end(self) -> list[int]:
        """Look at the runs under way, and end those whose lease was the same for a minute; their numbers."""
        lease = leases.c.name == literal("run:") + cast(runs.c.project_id, Text)
        query = select(runs, leases.c.token, leases.c.expires_at).outerjoin(leases, lease)
        found = self._database.fetch(query.where(runs.c.status == "running")).all()
        now, seen = self._clock(), self._seen
        signs = {row.id: (row.attempts, row.progress, row.token, row.expires_at) for row in found}
        self._seen = {
            key: seen[key] if key in seen and seen[key][0] == sign else (sign, now) for key, sign in signs.items()
        }
        return [row.id for row in found if now - self._seen[row.id][1] >= SILENT_SECONDS and self._end(row)]

    def _end(self, row: Any) -> bool:
        """End one run, unless it moved since it was looked at."""
        where = f" ({row.progress_note})" if row.progress_note else ""
        error = (
            f"no sign of life for {SILENT_SECONDS:.0f} seconds{where}: its worker died, or the database keeps it from "
            "going on; `evenhand doctor` tells which, and the worker's log says more"
        )
        with self._database.write() as connection:
            same = [runs.c.id == row.id, runs.c.status == "running", runs.c.attempts == row.attempts]
            values = {"status": "failed", "error": error, "finished_at": self._database.clock()}
            same.append(runs.c.progress.is_not_distinct_from(row.progress))
            return connection.execute(update(runs).where(*same).values(**values)).rowcount == 1


def _open_runs(moment: float) -> Any:
    """Runs that wait, or whose worker's lease has run out, oldest first, on projects nobody works on."""
    held = (
        select(leases.c.name)
        .where(leases.c.name == literal("run:") + cast(runs.c.project_id, Text), is_held(moment))
        .exists()
    )
    return select(runs).where(runs.c.status.in_(("running", "queued")), ~held).order_by(runs.c.id).limit(20)


def _set(connection: Connection, run_id: int, **values: Any) -> None:
    """Change columns of one run."""
    connection.execute(update(runs).where(runs.c.id == run_id).values(**values))


def _run(row: Any) -> Run:
    """A stored row as a record."""
    return Run(**{key: value for key, value in row._mapping.items() if key != "attempts"})
