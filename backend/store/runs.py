"""Runs: requested, claimed by one worker at a time, stored whole, read in pages."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Table, Text, and_, cast, delete, func, literal, or_, select, update

from backend.database import finite
from backend.domain import Lease, Page, Run, RunResult
from backend.errors import LeaseLostError, NotFoundError, PayloadError
from backend.schema import (
    annotators,
    flags,
    leases,
    projects,
    run_annotators,
    run_items,
    run_order_changes,
    run_paths,
    runs,
)
from backend.store.base import chunks, page
from backend.store.leases import LONGEST_SECONDS, LeaseStore, is_held

MAX_ATTEMPTS = 5
ANNOTATOR_COLUMNS: tuple[str, ...] = tuple(c.name for c in run_annotators.columns if c.name != "run_id")
ITEM_COLUMNS: tuple[str, ...] = tuple(c.name for c in run_items.columns if c.name != "run_id")


class RunStore(LeaseStore):
    """The queue of runs and their results."""

    def request_run(self, project_id: int, trigger: str, requested_by: str | None = None) -> Run:
        """Ask for a run; a run of the project that still waits answers for all requests."""
        waiting = select(runs).where(runs.c.project_id == project_id, runs.c.status == "queued")
        with self._write() as connection:
            # The project's row serialises requests, so that two of them cannot both find an empty queue.
            lock = select(projects.c.id).where(projects.c.id == project_id).with_for_update()
            if connection.execute(lock).first() is None:
                raise NotFoundError(f"project {project_id} does not exist; `evenhand status` lists the projects")
            row = connection.execute(waiting.limit(1)).first()
            if row is None:
                values = {"status": "queued", "trigger": trigger, "requested_by": requested_by, "attempts": 0}
                insert = runs.insert().values(project_id=project_id, requested_at=self.clock(), **values)
                key = connection.execute(insert).inserted_primary_key
                row = connection.execute(select(runs).where(runs.c.id == (key or (0,))[0])).one()
            return _run(row)

    def claim_run(self, owner: str, seconds: float) -> tuple[Run, Lease] | None:
        """Take the oldest waiting run whose project nobody works on, with the lease `run:<project>`.

        Runs whose worker died (lease expired) are taken over; after MAX_ATTEMPTS tries they fail.
        """
        with self._write() as connection:
            now = self._database_time(connection)
            for row in connection.execute(_open_runs(now)).all():
                lease = self._acquire(connection, f"run:{row.project_id}", owner, seconds)
                if lease is None:
                    continue
                # Read again under the lease: the run may have been finished while we waited for it.
                current = connection.execute(select(runs).where(runs.c.id == row.id).with_for_update()).one()
                if current.status not in ("queued", "running"):
                    continue
                if current.attempts >= MAX_ATTEMPTS:
                    message = f"gave up after {MAX_ATTEMPTS} attempts; the worker died each time, see its log"
                    _set(connection, row.id, status="failed", error=message, finished_at=self.clock())
                    continue
                _set(
                    connection,
                    row.id,
                    status="running",
                    started_at=self.clock(),
                    attempts=current.attempts + 1,
                    progress=0.0,
                    progress_note=None,
                )
                return _run(connection.execute(select(runs).where(runs.c.id == row.id)).one()), lease
        return None

    def progress_run(self, run_id: int, lease: Lease, share: float, note: str = "", *, seconds: float = 60.0) -> Lease:
        """Report progress in [0, 1] and renew the lease in one go; raises LeaseLostError."""
        with self._write() as connection:
            self._check_lease(connection, lease)
            expires_at = self._database_time(connection) + min(seconds, LONGEST_SECONDS)
            connection.execute(update(leases).where(leases.c.name == lease.name).values(expires_at=expires_at))
            _set(connection, run_id, progress=share, progress_note=note)
            return Lease(lease.name, lease.owner, lease.token, expires_at)

    def finish_run(self, run_id: int, lease: Lease, result: RunResult) -> Run:
        """Store a run whole, replace the project's persistent flags if given, and release the lease."""
        with self._write() as connection:
            row = self._running(connection, run_id, lease)
            scalars = ("seq", "seed", "config", "versions", "audit", "guarantee", "summary", "timings", "data_hash")
            _set(
                connection,
                run_id,
                status="done",
                finished_at=self.clock(),
                progress=1.0,
                error=None,
                model_version=f"evenhand-{run_id}",
                **{name: getattr(result, name) for name in scalars},
            )
            _store_rows(connection, run_annotators, run_id, _annotator_rows(result.annotators))
            _store_rows(connection, run_items, run_id, result.items)
            _store_rows(connection, run_order_changes, run_id, _numbered(result.order_changes))
            if result.path is not None:
                _store_rows(connection, run_paths, run_id, [{"path": finite(result.path)}])
            if result.flags is not None:
                self._replace_flags(connection, row.project_id, run_id, result.flags)
            connection.execute(update(leases).where(leases.c.name == lease.name).values(expires_at=0.0))
        return self.get_run(run_id)

    def fail_run(self, run_id: int, lease: Lease, error: str) -> None:
        """Record why a run failed and release the lease."""
        with self._write() as connection:
            self._running(connection, run_id, lease)
            _set(connection, run_id, status="failed", error=error[:5000], finished_at=self.clock())
            connection.execute(update(leases).where(leases.c.name == lease.name).values(expires_at=0.0))

    def drop_run(self, run_id: int, lease: Lease) -> None:
        """Forget a run that found nothing to do (no change since the last one)."""
        with self._write() as connection:
            self._running(connection, run_id, lease)
            connection.execute(delete(runs).where(runs.c.id == run_id))
            connection.execute(update(leases).where(leases.c.name == lease.name).values(expires_at=0.0))

    def get_run(self, run_id: int, *, project_id: int | None = None) -> Run:
        """One run, of this project if given; raises NotFoundError."""
        query = select(runs).where(runs.c.id == run_id)
        if project_id is not None:
            query = query.where(runs.c.project_id == project_id)
        with self._read() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotFoundError(f"run {run_id} does not exist; the project's runs are listed under /runs")
        return _run(row)

    def latest_run(self, project_id: int, *, status: str | None = "done") -> Run | None:
        """The newest run with this status (any, if None)."""
        query = select(runs).where(runs.c.project_id == project_id)
        query = query if status is None else query.where(runs.c.status == status)
        with self._read() as connection:
            row = connection.execute(query.order_by(runs.c.id.desc()).limit(1)).first()
            return _run(row) if row else None

    def list_runs(self, project_id: int, *, limit: int = 50, cursor: str | None = None) -> Page:
        """A page of runs, newest first."""
        query = select(runs).where(runs.c.project_id == project_id)
        with self._read() as connection:
            return page(connection, query, [(runs.c.id, True)], limit=limit, cursor=cursor)

    def model_versions(self, project_id: int | None = None, *, limit: int = 20) -> list[str]:
        """Versions of the latest finished runs, newest first."""
        query = select(runs.c.model_version).where(runs.c.status == "done", runs.c.model_version.is_not(None))
        query = query if project_id is None else query.where(runs.c.project_id == project_id)
        with self._read() as connection:
            return list(connection.execute(query.order_by(runs.c.id.desc()).limit(limit)).scalars())

    def queue_age(self) -> float:
        """Seconds the oldest waiting run has been waiting; 0 if none waits."""
        query = select(func.min(runs.c.requested_at)).where(runs.c.status == "queued")
        with self._read() as connection:
            oldest = connection.execute(query).scalar_one()
        return max(0.0, self.clock() - oldest) if oldest is not None else 0.0

    def page_annotators(
        self,
        run_id: int,
        *,
        sort: str = "position",
        descending: bool = False,
        flagged: bool | None = None,
        persistent: bool | None = None,
        verdict: str | None = None,
        search: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        offset: int = 0,
    ) -> Page:
        """A page of a run's annotators with their names, sorted and filtered by the database."""
        if sort not in (*ANNOTATOR_COLUMNS, "name"):
            raise PayloadError(f"sort is {sort[:60]!r}; expected one of {', '.join(ANNOTATOR_COLUMNS)}, name")
        column = annotators.c.name if sort == "name" else run_annotators.c[sort]
        project = select(runs.c.project_id).where(runs.c.id == run_id).scalar_subquery()
        joined = run_annotators.outerjoin(
            annotators,
            and_(annotators.c.annotator_id == run_annotators.c.annotator, annotators.c.project_id == project),
        )
        query = select(run_annotators, annotators.c.name, annotators.c.email).select_from(joined)
        query = query.where(run_annotators.c.run_id == run_id)
        for name, wanted in (("flagged", flagged), ("persistent", persistent), ("verdict", verdict)):
            if wanted is not None:
                query = query.where(run_annotators.c[name] == wanted)
        if search:
            fields = (run_annotators.c.annotator, annotators.c.name, annotators.c.email)
            query = query.where(or_(*[field.icontains(search, autoescape=True) for field in fields]))
        order = [(column, descending), (run_annotators.c.annotator, False)]
        with self._read() as connection:
            return page(connection, query, order, limit=limit, cursor=cursor, offset=offset)

    def run_annotator(self, run_id: int, annotator_id: str) -> dict[str, Any] | None:
        """One annotator's row of a run."""
        query = select(run_annotators).where(
            run_annotators.c.run_id == run_id, run_annotators.c.annotator == annotator_id
        )
        with self._read() as connection:
            row = connection.execute(query).mappings().first()
            return dict(row) if row else None

    def all_annotators(self, run_id: int) -> list[dict[str, Any]]:
        """Every annotator of a run, worst first (reports, comparison of runs, plots)."""
        return self._all(run_annotators, run_id, "position")

    def all_items(self, run_id: int) -> list[dict[str, Any]]:
        """Every item of a run, best first."""
        return self._all(run_items, run_id, "rank")

    def page_items(
        self,
        run_id: int,
        *,
        sort: str = "rank",
        descending: bool = False,
        limit: int = 100,
        cursor: str | None = None,
        offset: int = 0,
    ) -> Page:
        """A page of a run's ranking."""
        if sort not in ITEM_COLUMNS:
            raise PayloadError(f"sort is {sort[:60]!r}; expected one of {', '.join(ITEM_COLUMNS)}")
        query = select(run_items).where(run_items.c.run_id == run_id)
        order = [(run_items.c[sort], descending), (run_items.c.item, False)]
        with self._read() as connection:
            return page(connection, query, order, limit=limit, cursor=cursor, offset=offset)

    def item_scores(self, run_id: int, wanted: Collection[str]) -> dict[str, float]:
        """Scores of these items in a run."""
        scores: dict[str, float] = {}
        query = select(run_items.c.item, run_items.c.score).where(run_items.c.run_id == run_id)
        with self._read() as connection:
            for part in chunks(sorted(set(wanted))):
                rows = connection.execute(query.where(run_items.c.item.in_(part)))
                scores.update((row.item, row.score) for row in rows if row.score is not None)
        return scores

    def order_changes(self, run_id: int, *, limit: int = 1000) -> list[dict[str, Any]]:
        """Pairs that changed order by the correction, strongest first."""
        query = select(run_order_changes).where(run_order_changes.c.run_id == run_id)
        with self._read() as connection:
            rows = connection.execute(query.order_by(run_order_changes.c.position).limit(limit)).mappings()
            return [dict(row) for row in rows]

    def run_path(self, run_id: int) -> Mapping[str, Any] | None:
        """The regularisation path of a run, for plots."""
        with self._read() as connection:
            return connection.execute(select(run_paths.c.path).where(run_paths.c.run_id == run_id)).scalar()

    def list_flags(self, project_id: int) -> list[dict[str, Any]]:
        """The project's persistent flags: annotator_id, run_id, since, verdict, evidence."""
        query = select(flags).where(flags.c.project_id == project_id).order_by(flags.c.since, flags.c.annotator_id)
        with self._read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def _replace_flags(
        self, connection: Connection, project_id: int, run_id: int, rows: list[Mapping[str, Any]]
    ) -> None:
        """Put new flags in place; one that stays keeps its `since`."""
        known = {
            row.annotator_id: row.since
            for row in connection.execute(select(flags).where(flags.c.project_id == project_id))
        }
        connection.execute(delete(flags).where(flags.c.project_id == project_id))
        values = [
            {
                "project_id": project_id,
                "run_id": run_id,
                "annotator_id": row["annotator_id"],
                "since": known.get(row["annotator_id"], self.clock()),
                "verdict": row.get("verdict"),
                "evidence": finite(dict(row.get("evidence", {}))),
            }
            for row in rows
        ]
        if values:
            connection.execute(flags.insert(), values)

    def _running(self, connection: Connection, run_id: int, lease: Lease) -> Any:
        """The run's row if it is still ours to finish."""
        self._check_lease(connection, lease)
        row = connection.execute(select(runs).where(runs.c.id == run_id).with_for_update()).first()
        if row is None or row.status != "running" or lease.name != f"run:{row.project_id}":
            raise LeaseLostError(f"run {run_id} is no longer running under this lease; drop the result")
        return row

    def _all(self, table: Table, run_id: int, order: str) -> list[dict[str, Any]]:
        """All rows of a run's table."""
        key = "annotator" if table is run_annotators else "item"
        query = select(table).where(table.c.run_id == run_id).order_by(table.c[order], table.c[key])
        with self._read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


def _open_runs(now: float) -> Any:
    """Runs that wait, or whose worker's lease has run out, oldest first, on projects nobody works on."""
    held = (
        select(leases.c.name)
        .where(leases.c.name == literal("run:") + cast(runs.c.project_id, Text), is_held(now))
        .exists()
    )
    return select(runs).where(runs.c.status.in_(("running", "queued")), ~held).order_by(runs.c.id).limit(20)


def _set(connection: Connection, run_id: int, **values: Any) -> None:
    """Change columns of one run."""
    connection.execute(update(runs).where(runs.c.id == run_id).values(**values))


def _store_rows(connection: Connection, table: Table, run_id: int, rows: list[Any]) -> None:
    """Insert a run's rows, keeping only the table's columns and finite numbers."""
    names = [column.name for column in table.columns if column.name != "run_id"]
    values = [{"run_id": run_id, **{name: finite(row.get(name)) for name in names}} for row in rows]
    for part in chunks(values):
        connection.execute(table.insert(), list(part))


def _annotator_rows(rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Annotator rows with their place and the columns that may be left out."""
    fallback = {"persistent": False, "warned": False, "flagged": False, "sup_e": None}
    return [{"position": place, **fallback, **row} for place, row in enumerate(rows, start=1)]


def _numbered(rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their place."""
    return [{**row, "position": place} for place, row in enumerate(rows, start=1)]


def _run(row: Any) -> Run:
    """A stored row as a record."""
    return Run(**{key: value for key, value in row._mapping.items() if key != "attempts"})
