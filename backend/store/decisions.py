"""Reviewers' decisions: an append-only log, each line sealed by the hash of the one before."""

import hashlib
import json
import secrets as randomness
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, select, update

from backend.domain import ChainCheck, Decision, Page, Review, Verdict
from backend.errors import NotFoundError
from backend.schema import decisions, projects
from backend.store.base import StoreBase, page

FIRST = "0" * 64
ERASE = "erase"
ERASED_AUTHOR = "erased"

Redact = Callable[[Mapping[str, Any]], dict[str, Any] | None]


class DecisionStore(StoreBase):
    """Appending, reading and checking decisions."""

    def add_decision(
        self,
        project_id: int,
        annotator_id: str,
        decision: Verdict,
        *,
        author: str,
        comment: str = "",
        source: str = "dashboard",
        source_key: str | None = None,
        run_id: int | None = None,
        decided_at: float | None = None,
    ) -> Decision:
        """Append a decision; the same `source_key` twice is the same decision and is stored once."""
        with self._write() as connection:
            last = self._last(connection, project_id)
            number = last.number + 1 if last else 1
            key = source_key or f"{source}:{number}"
            known = select(decisions).where(decisions.c.project_id == project_id, decisions.c.source_key == key)
            row = connection.execute(known).first()
            if row is not None:
                return Decision(**row._mapping)
            values: dict[str, Any] = {
                "annotator_id": annotator_id,
                "decision": decision,
                "comment": comment,
                "author": author,
                "source": source,
                "source_key": key,
                "run_id": run_id,
            }
            return self._append_line(connection, project_id, last, values, decided_at)

    def add_review(self, review: Review) -> Decision:
        """Append a decision that came back from the alerts project."""
        return self.add_decision(
            review.project_id,
            review.annotator_id,
            review.decision,
            author=review.author,
            comment=review.comment,
            source="label-studio",
            source_key=review.source_key,
            decided_at=review.decided_at,
        )

    def list_decisions(
        self, project_id: int, *, annotator_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """A page of the log, newest first."""
        query = select(decisions).where(decisions.c.project_id == project_id)
        if annotator_id is not None:
            query = query.where(decisions.c.annotator_id == annotator_id)
        with self._read() as connection:
            return page(connection, query, [(decisions.c.number, True)], limit=limit, cursor=cursor)

    def current_decisions(self, project_id: int) -> dict[str, Decision]:
        """The decision in force per annotator: the one decided last, whenever it reached us."""
        query = select(decisions).where(decisions.c.project_id == project_id, decisions.c.decision != ERASE)
        order = (decisions.c.decided_at, decisions.c.number)
        with self._read() as connection:
            return {row.annotator_id: Decision(**row._mapping) for row in connection.execute(query.order_by(*order))}

    def verify_decisions(self, project_id: int) -> ChainCheck:
        """Recompute the chain from its start."""
        with self._read() as connection:
            return check_chain(connection, project_id)

    def _redact(self, connection: Connection, project_id: int, pseudonym: str, redact: Redact) -> int:
        """Redact the lines for which `redact` gives new values, and append the line that vouches for them."""
        last = self._last(connection, project_id)
        number = last.number + 1 if last else 1
        query = select(decisions).where(decisions.c.project_id == project_id, decisions.c.decision != ERASE)
        covers: dict[str, str] = {}
        for row in connection.execute(query.order_by(decisions.c.number)).all():
            changes = redact(dict(row._mapping))
            if changes is None:
                continue
            changes = {**changes, "salt": "", "redacted_by": number}
            mine = (decisions.c.project_id == project_id, decisions.c.number == row.number)
            connection.execute(update(decisions).where(*mine).values(**changes))
            covers[str(row.number)] = redaction_seal({**row._mapping, **changes})
        if covers:
            values = {
                "annotator_id": pseudonym,
                "decision": ERASE,
                "comment": f"Erased on request: line {', '.join(covers)}.",
                "author": "evenhand annotator erase",
                "source": "erasure",
                "source_key": f"erasure:{number}",
                "run_id": None,
                "covers": json.dumps(covers),
            }
            self._append_line(connection, project_id, last, values, None)
        return len(covers)

    def _append_line(
        self, connection: Connection, project_id: int, last: Any, values: dict[str, Any], decided_at: float | None
    ) -> Decision:
        """Seal a line onto the one before; the salt keeps a redacted line from being guessed by its hash."""
        now = self.clock()
        values = {
            "number": last.number + 1 if last else 1,
            "project_id": project_id,
            **values,
            "decided_at": now if decided_at is None else decided_at,
            "recorded_at": now,
            "previous_hash": last.hash if last else FIRST,
            "salt": randomness.token_hex(16),
        }
        values["hash"] = seal(values)
        connection.execute(decisions.insert().values(**values))
        return Decision(**values)

    def _last(self, connection: Connection, project_id: int) -> Any:
        """The last line of the log, with the project locked so that the chain cannot fork."""
        lock = select(projects.c.id).where(projects.c.id == project_id).with_for_update()
        if connection.execute(lock).first() is None:
            raise NotFoundError(f"project {project_id} does not exist; `evenhand status` lists the projects")
        query = select(decisions).where(decisions.c.project_id == project_id)
        return connection.execute(query.order_by(decisions.c.number.desc()).limit(1)).first()


def check_chain(connection: Connection, project_id: int) -> ChainCheck:
    """Recompute a project's chain; a redacted line must be the one that a later line vouches for."""
    query = select(decisions).where(decisions.c.project_id == project_id).order_by(decisions.c.number)
    previous, length, redacted = FIRST, 0, 0
    unproven: dict[int, tuple[int, str]] = {}
    for row in connection.execute(query):
        values = dict(row._mapping)
        is_next = row.number == length + 1 and row.previous_hash == previous
        if row.redacted_by is not None:
            unproven[row.number] = (row.redacted_by, redaction_seal(values))
            redacted += 1
        if not is_next or (row.redacted_by is None and seal(values) != row.hash):
            return ChainCheck(False, length, row.number)
        if row.covers and row.redacted_by is None:
            for number, digest in json.loads(row.covers).items():
                if unproven.get(int(number)) == (row.number, digest):
                    del unproven[int(number)]
        previous, length = row.hash, row.number
    if unproven:
        return ChainCheck(False, length, min(unproven))
    return ChainCheck(True, length, None, redacted)


def seal(values: Mapping[str, Any]) -> str:
    """The hash of one line, which covers the hash of the line before; lines of older versions have no salt."""
    kept = {key: value for key, value in values.items() if key not in ("hash", "redacted_by")}
    return _digest({key: value for key, value in kept.items() if value or key not in ("salt", "covers")})


def redaction_seal(values: Mapping[str, Any]) -> str:
    """The hash of what a redaction left of a line, the line's first hash included."""
    return _digest(values)


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps({key: values[key] for key in sorted(values)}, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
