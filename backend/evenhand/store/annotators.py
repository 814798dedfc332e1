"""What is known of annotators over all runs: names, live evidence, spending, lasting flags; and who was erased."""

import hashlib
import hmac
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, or_, select, update

from evenhand.domain import Annotator, Comparison, Status, StoredEvidence
from evenhand.errors import ConflictError
from evenhand.store.database import Aggregate, project_row, select_in, without_project
from evenhand.store.engine import finite
from evenhand.store.merge import TOMBSTONE
from evenhand.store.schema import annotators, erasures, flags, live_evidence, projects, secrets, spending

KEY_NAME = "erasures"
STATUS: Status = "erased"
_MARKS = (
    select(erasures.c.token)
    .join(projects, or_(erasures.c.ls_url == projects.c.ls_url, erasures.c.ls_url == ""))
    .where(projects.c.id == bindparam("project"))
)
_KEY = select(secrets.c.value).where(secrets.c.name == KEY_NAME)


def mark(key: str, annotator_id: str) -> str:
    """What is kept of an erased person."""
    return hmac.new(key.encode(), annotator_id.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


class Erased:
    """The erased people of a project's Label Studio; `in` tells whether an annotator is one of them."""

    def __init__(self, key: str, marks: Iterable[str]) -> None:
        self._key, self._marks = key, frozenset(marks)

    @classmethod
    def of(cls, connection: Connection, project_id: int) -> "Erased":
        """Read the marks; to be called after the project's row is locked, so that an erasure cannot slip between."""
        marks = list(connection.execute(_MARKS, {"project": project_id}).scalars())
        return cls(str(connection.execute(_KEY).scalar() or "") if marks else "", marks)

    def __contains__(self, annotator_id: object) -> bool:
        """Whether this annotator was erased."""
        return bool(self._marks) and isinstance(annotator_id, str) and mark(self._key, annotator_id) in self._marks

    def without(self, comparisons: Iterable[Comparison]) -> Iterator[Comparison]:
        """Answers as they may be stored: of an erased person, only that the task has one."""
        for row in comparisons:
            if row.annotator_id in self:
                row = replace(
                    TOMBSTONE, annotation_id=row.annotation_id, task_id=row.task_id, status=STATUS, ground_truth=False
                )
            yield row

    def keep(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Entries by annotator, without those of erased people."""
        return {key: value for key, value in named.items() if key not in self}


_REMOVED = ("removed (was ", ")")


def removed_name(name: str) -> str:
    """What somebody is called whose account is gone."""
    return name if name.startswith(_REMOVED[0]) else name.join(_REMOVED)


def former_name(name: str) -> str:
    """What somebody was called before the account went."""
    return name.removeprefix(_REMOVED[0]).removesuffix(_REMOVED[1]) if name.startswith(_REMOVED[0]) else name


class AnnotatorStore(Aggregate):
    """Names and addresses of annotators."""

    def name(self, project_id: int, names: Mapping[str, tuple[str | None, str | None]], *, insert: bool = False) -> int:
        """Set names and e-mail addresses by annotator id; people never seen are added only with `insert`."""
        if not names:
            return 0
        with self._database.write() as connection:
            project_row(connection, project_id, lock=True)
            names = Erased.of(connection, project_id).keep(names)
            if not names:
                return 0
            if insert:
                rows = [{"project_id": project_id, "annotator_id": key} for key in sorted(names)]
                connection.execute(self._database.insert_new(annotators), rows)
            statement = (
                update(annotators)
                .where(annotators.c.project_id == project_id, annotators.c.annotator_id == bindparam("key"))
                .values(
                    name=bindparam("new_name"),
                    email=bindparam("new_email"),
                    team=func.coalesce(annotators.c.team, bindparam("domain")),
                )
            )
            values = [
                {"key": key, "new_name": name, "new_email": email, "domain": (email or "").partition("@")[2] or None}
                for key, (name, email) in names.items()
            ]
            connection.execute(statement, values)
        return len(names)

    def set_teams(self, project_id: int, teams: Mapping[str, str | None]) -> None:
        """Say which team or vendor each annotator belongs to, by id."""
        values = [{"key": key, "new_team": team} for key, team in sorted(teams.items())]
        statement = update(annotators).where(
            annotators.c.project_id == project_id, annotators.c.annotator_id == bindparam("key")
        )
        if values:
            self._database.change(statement.values(team=bindparam("new_team")), values)

    def teams(self, project_id: int) -> dict[str, int]:
        """How many annotators each team of a project has, by name."""
        query = select(annotators.c.team, func.count()).where(
            annotators.c.project_id == project_id, annotators.c.team.is_not(None)
        )
        query = query.group_by(annotators.c.team).order_by(annotators.c.team)
        return {str(row[0]): int(row[1]) for row in self._database.fetch(query)}

    def unnamed(self, project_id: int) -> set[str]:
        """Ids of annotators whose name is not known."""
        query = select(annotators.c.annotator_id).where(
            annotators.c.project_id == project_id, annotators.c.name.is_(None), annotators.c.email.is_(None)
        )
        return set(self._database.fetch(query).scalars())

    def get(self, project_id: int, ids: Collection[str] | None = None) -> dict[str, Annotator]:
        """Annotators of a project by id."""
        query = select(annotators).where(annotators.c.project_id == project_id)
        with self._database.read() as connection:
            rows = select_in(connection, query, annotators.c.annotator_id, ids)
            names = ("annotator_id", "name", "email", "first_seen", "team")
            return {row.annotator_id: Annotator(*(getattr(row, name) for name in names)) for row in rows}


class LiveStore(Aggregate):
    """Reading and advancing the e-processes of a project."""

    def standing(self, project_id: int) -> tuple[int, dict[str, Any]]:
        """The sequence number already counted, and everybody's evidence without its state, which is large."""
        with self._database.read(snapshot=True) as connection:
            seq = connection.execute(select(projects.c.live_seq).where(projects.c.id == project_id)).scalar_one()
            rows = connection.execute(select(*_STANDING).where(live_evidence.c.project_id == project_id))
            return seq, {row.annotator_id: row for row in rows}

    def get(self, project_id: int, annotator_ids: Collection[str]) -> dict[str, StoredEvidence]:
        """The evidence of these annotators, whole."""
        query = select(live_evidence).where(live_evidence.c.project_id == project_id)
        with self._database.read() as connection:
            rows = select_in(connection, query, live_evidence.c.annotator_id, annotator_ids)
            return {row.annotator_id: StoredEvidence(**without_project(row)) for row in rows}

    def put(self, project_id: int, rows: Collection[StoredEvidence], *, from_seq: int, to_seq: int) -> None:
        """Store evidence that counted the changes from_seq < seq <= to_seq, in one transaction.

        Raises ConflictError if somebody else advanced it.
        """
        with self._database.write() as connection:
            advance = update(projects).where(projects.c.id == project_id, projects.c.live_seq == from_seq)
            if connection.execute(advance.values(live_seq=to_seq)).rowcount != 1:
                raise ConflictError(f"live evidence of project {project_id} is no longer at {from_seq}; read it again")
            erased = Erased.of(connection, project_id)
            values = [{"project_id": project_id, **vars(row)} for row in rows if row.annotator_id not in erased]
            if values:
                connection.execute(self._database.upsert(live_evidence), values)

    def warn(self, project_id: int, annotator_ids: Collection[str], at: float) -> None:
        """Note warnings of these annotators; an older warning keeps its time."""
        if not annotator_ids:
            return
        mine = (live_evidence.c.project_id == project_id, live_evidence.c.annotator_id.in_(sorted(annotator_ids)))
        statement = update(live_evidence).where(*mine, live_evidence.c.warned_at.is_(None)).values(warned_at=at)
        self._database.change(statement)

    def withdraw(self, project_id: int) -> int:
        """Take all warnings of a project back; how many there were."""
        if not self.warned(project_id):
            return 0
        mine = (live_evidence.c.project_id == project_id, live_evidence.c.warned_at.is_not(None))
        return int(self._database.change(update(live_evidence).where(*mine).values(warned_at=None)).rowcount)

    def warned(self, project_id: int) -> dict[str, Any]:
        """Everybody with a warning, the earliest first: warned_at, and how many answers the evidence counts by now."""
        query = select(*_STANDING).where(
            live_evidence.c.project_id == project_id, live_evidence.c.warned_at.is_not(None)
        )
        order = (live_evidence.c.warned_at, live_evidence.c.annotator_id)
        return {row.annotator_id: row for row in self._database.fetch(query.order_by(*order))}


_STANDING = [live_evidence.c[name] for name in ("annotator_id", "log_e", "sup_log_e", "answers", "warned_at")]


class SpendingStore(Aggregate):
    """The spending of a project's annotators, by id."""

    def all(self, project_id: int) -> dict[str, dict[str, Any]]:
        """Everybody's state, fit for `fdr_core.spending.Spending.from_dict`."""
        query = select(spending).where(spending.c.project_id == project_id)
        return {row.annotator_id: dict(row._mapping) for row in self._database.fetch(query)}

    def store_in(self, connection: Connection, project_id: int, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep the states that a run changed, except of people who were erased meanwhile."""
        erased = Erased.of(connection, project_id)
        rows = [
            {"project_id": project_id, "annotator_id": annotator, **state}
            for annotator, state in states.items()
            if annotator not in erased
        ]
        if rows:
            connection.execute(self._database.upsert(spending), rows)


class FlagStore(Aggregate):
    """The lasting flags, which a run replaces as a whole."""

    def all(self, project_id: int) -> list[dict[str, Any]]:
        """The project's lasting flags: annotator_id, run_id, since, finding, evidence."""
        query = select(flags).where(flags.c.project_id == project_id).order_by(flags.c.since, flags.c.annotator_id)
        return [dict(row) for row in self._database.fetch(query).mappings()]

    def replace_in(self, connection: Connection, project_id: int, run_id: int, rows: list[Mapping[str, Any]]) -> None:
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
                "since": known.get(row["annotator_id"], self._database.clock()),
                "finding": row.get("finding"),
                "evidence": finite(dict(row.get("evidence", {}))),
            }
            for row in rows
        ]
        if values:
            connection.execute(flags.insert(), values)
