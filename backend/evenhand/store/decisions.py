"""The log of a project, append-only, each line sealed by the hash of the one before: decisions and settings."""

import hashlib
import json
import secrets as randomness
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, delete, select, update

from evenhand.domain import ChainCheck, Choice, Decision, Page, Review
from evenhand.errors import NotFoundError
from evenhand.store.database import Aggregate, Database, page, project_row
from evenhand.store.schema import decisions, follow_ups, spending

FIRST = "0" * 64
ERASE = "erase"
#: A line that takes an earlier one back; its source key names the line.
WITHDRAW = "withdraw"
#: A line that tells how a setting was changed; its detail says which, from what, to what.
SETTING = "setting"
#: Where such a line comes from: a setting that changed, or what somebody stated about the sides.
CHANGED, STATED = "settings", "statement"
ERASED_AUTHOR = "erased"
#: A line that takes a whole batch of somebody's answers out, of the time its detail names.
WITHDRAW_ANSWERS = "withdraw_answers"
#: What a person decided about another one, or took back.
_ABOUT_PEOPLE = decisions.c.decision != SETTING

Redact = Callable[[Mapping[str, Any]], dict[str, Any] | None]


class DecisionStore(Aggregate):
    """Appending, reading and checking decisions."""

    def add(
        self,
        project_id: int,
        annotator_id: str,
        decision: Choice,
        *,
        author: str,
        comment: str = "",
        source: str = "dashboard",
        source_key: str | None = None,
        run_id: int | None = None,
        decided_at: float | None = None,
    ) -> Decision:
        """Append a decision; the same `source_key` twice is the same decision and is stored once."""
        with self._database.write() as connection:
            last = self._last(connection, project_id)
            key = source_key or f"{source}:{_after(last)}"
            known = select(decisions).where(decisions.c.project_id == project_id, decisions.c.source_key == key)
            row = connection.execute(known).first()
            if row is not None:
                return Decision(**row._mapping)
            said = (annotator_id, decision, comment, author, source)
            return self._append_line(
                connection, project_id, last, *said, source_key=key, run_id=run_id, decided_at=decided_at
            )

    def withdraw(
        self, project_id: int, number: int, *, author: str, reason: str = "", source: str = "dashboard"
    ) -> Decision:
        """Append a line that takes line `number` back; the log stays whole, and what was in force before it is again.

        Withdrawing the same line twice appends once. Raises NotFoundError where no decision has that number.
        """
        with self._database.write() as connection:
            last = self._last(connection, project_id)
            known = select(decisions).where(decisions.c.project_id == project_id)
            taken = connection.execute(known.where(decisions.c.number == number)).first()
            if taken is None or taken.decision in (ERASE, WITHDRAW, SETTING):
                raise NotFoundError(f"the log of project {project_id} has no decision {number} to take back")
            key = f"{WITHDRAW}:{number}"
            row = connection.execute(known.where(decisions.c.source_key == key)).first()
            if row is not None:
                return Decision(**row._mapping)
            said = (taken.annotator_id, WITHDRAW, f"Takes back entry {number}. {reason}".rstrip(), author, source)
            return self._append_line(connection, project_id, last, *said, source_key=key, run_id=taken.run_id)

    def line(self, project_id: int, number: int) -> Decision:
        """One line of the log about somebody; raises NotFoundError."""
        mine = (decisions.c.project_id == project_id, decisions.c.number == number, _ABOUT_PEOPLE)
        row = self._database.fetch(select(decisions).where(*mine)).first()
        if row is None:
            raise NotFoundError(f"the log of project {project_id} has no decision {number}")
        return Decision(**row._mapping)

    def add_review(self, review: Review) -> tuple[Decision, bool]:
        """Append a decision that came back from the alerts project; whether it is new."""
        mine = (decisions.c.project_id == review.project_id, decisions.c.source_key == review.source_key)
        is_new = self._database.fetch(select(decisions.c.number).where(*mine)).first() is None
        made = self.add(
            review.project_id,
            review.annotator_id,
            review.decision,
            author=review.author,
            comment=review.comment,
            source="label-studio",
            source_key=review.source_key,
            decided_at=min(review.decided_at, self._database.clock()),
        )
        return made, is_new

    def page(
        self, project_id: int, *, annotator_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """A page of the decisions, newest first."""
        query = select(decisions).where(decisions.c.project_id == project_id, _ABOUT_PEOPLE)
        if annotator_id is not None:
            query = query.where(decisions.c.annotator_id == annotator_id)
        with self._database.read() as connection:
            return page(connection, query, [(decisions.c.number, True)], limit=limit, cursor=cursor)

    def current(self, project_id: int) -> dict[str, Decision]:
        """The decision in force per annotator: the last that reached us; clocks of others do not count."""
        return {decision.annotator_id: decision for decision in self.in_force(project_id)}

    def in_force(self, project_id: int) -> list[Decision]:
        """Every decision that was not withdrawn, in the order they reached us."""
        mine = (decisions.c.project_id == project_id, _ABOUT_PEOPLE, decisions.c.decision != ERASE)
        query = select(decisions).where(*mine)
        lines = [Decision(**row._mapping) for row in self._database.fetch(query.order_by(decisions.c.number))]
        withdrawn = {line.source_key for line in lines if line.decision == WITHDRAW}
        return [
            line
            for line in lines
            if line.decision not in (WITHDRAW, WITHDRAW_ANSWERS) and f"{WITHDRAW}:{line.number}" not in withdrawn
        ]

    def withdraw_answers(
        self, project_id: int, annotator_id: str, *, since: float, until: float, author: str, reason: str
    ) -> Decision:
        """Append a line that takes the answers somebody gave in a time out of everything; `withdraw` takes it back.

        What was found on them is looked at anew: evidence that was spent on answers taken out does not stay.
        """
        with self._database.write() as connection:
            last = self._last(connection, project_id)
            said = (annotator_id, WITHDRAW_ANSWERS, reason, author, "dashboard")
            more = {
                "source_key": f"{WITHDRAW_ANSWERS}:{_after(last)}",
                "detail": json.dumps({"since": since, "until": until}),
            }
            made = self._append_line(connection, project_id, last, *said, **more)
            mine = (spending.c.project_id == project_id, spending.c.annotator_id == annotator_id)
            connection.execute(delete(spending).where(*mine))
            return made

    def withdrawn_answers(self, project_id: int) -> dict[str, list[tuple[float, float]]]:
        """The times whose answers were taken out, by annotator."""
        mine = decisions.c.project_id == project_id
        query = select(decisions).where(mine, decisions.c.decision.in_((WITHDRAW, WITHDRAW_ANSWERS)))
        lines = self._database.fetch(query).all()
        back = {line.source_key for line in lines if line.decision == WITHDRAW}
        found: dict[str, list[tuple[float, float]]] = {}
        for line in lines:
            if line.decision == WITHDRAW_ANSWERS and f"{WITHDRAW}:{line.number}" not in back and line.detail:
                time = json.loads(line.detail)
                found.setdefault(line.annotator_id, []).append((time["since"], time["until"]))
        return found

    def note_settings_in(
        self, connection: Connection, project_id: int, before: Mapping[str, Any], after: Mapping[str, Any], by: str
    ) -> None:
        """Append a line for every setting that changes, within the transaction that changes it."""
        for key in (key for key in after if before.get(key) != after[key]):
            change = {"key": key, "from": before.get(key), "to": after[key]}
            words = f"{key}: {_shown(change['from'])} → {_shown(change['to'])}"
            self.note_in(connection, project_id, change, words, by, CHANGED)

    def note_in(
        self, connection: Connection, project_id: int, detail: Mapping[str, Any], words: str, by: str, source: str
    ) -> None:
        """Append a line about a setting: that it was CHANGED, or what somebody STATED about it."""
        last = self._last(connection, project_id)
        said = ("", SETTING, words, by[:200], source)
        self._append_line(connection, project_id, last, *said, detail=json.dumps(detail))

    def setting_changes(
        self, project_id: int, *, after: float = 0.0, until: float | None = None, limit: int = 200
    ) -> list[Decision]:
        """How settings were changed, newest first; of a time only, where one is given."""
        mine = [decisions.c.project_id == project_id, decisions.c.source == CHANGED, decisions.c.recorded_at > after]
        if until is not None:
            mine.append(decisions.c.recorded_at <= until)
        query = select(decisions).where(*mine).order_by(decisions.c.number.desc()).limit(limit)
        return [Decision(**row._mapping) for row in self._database.fetch(query)]

    def verify(self, project_id: int) -> ChainCheck:
        """Recompute the chain from its start."""
        with self._database.read() as connection:
            return check_chain(connection, project_id)

    def redact_in(self, connection: Connection, project_id: int, pseudonym: str, redact: Redact) -> int:
        """Redact the lines for which `redact` gives new values, and append the line that vouches for them."""
        last = self._last(connection, project_id)
        number = _after(last)
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
            said = (pseudonym, ERASE, f"Erased on request: line {', '.join(covers)}.", "evenhand annotator erase")
            self._append_line(connection, project_id, last, *said, "erasure", covers=json.dumps(covers))
        return len(covers)

    def _append_line(
        self,
        connection: Connection,
        project_id: int,
        last: Any,
        annotator_id: str,
        decision: str,
        comment: str,
        author: str,
        source: str,
        **more: Any,
    ) -> Decision:
        """Seal a line onto the one before; the salt keeps a redacted line from being guessed by its hash."""
        now, number = self._database.clock(), _after(last)
        values = {
            "number": number,
            "project_id": project_id,
            "annotator_id": annotator_id,
            "decision": decision,
            "comment": comment,
            "author": author,
            "source": source,
            "source_key": f"{source}:{number}",
            "run_id": None,
            **more,
            "decided_at": now if more.get("decided_at") is None else more["decided_at"],
            "recorded_at": now,
            "previous_hash": last.hash if last else FIRST,
            "salt": randomness.token_hex(16),
        }
        values["hash"] = seal(values)
        connection.execute(decisions.insert().values(**values))
        return Decision(**values)

    def _last(self, connection: Connection, project_id: int) -> Any:
        """The last line of the log, with the project locked so that the chain cannot fork."""
        project_row(connection, project_id, lock=True)
        query = select(decisions).where(decisions.c.project_id == project_id)
        return connection.execute(query.order_by(decisions.c.number.desc()).limit(1)).first()


def _after(last: Any) -> int:
    """The number of the line that comes after this one."""
    return 1 if last is None else int(last.number) + 1


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
            for number, digest in _covers(row.covers).items():
                if unproven.get(number) == (row.number, digest):
                    del unproven[number]
        previous, length = row.hash, row.number
    if unproven:
        return ChainCheck(False, length, min(unproven))
    return ChainCheck(True, length, None, redacted)


def _covers(text: str) -> dict[int, str]:
    """The lines a redaction vouches for; none where somebody wrote something else there."""
    try:
        return {int(number): str(digest) for number, digest in json.loads(text).items()}
    except (ValueError, AttributeError, RecursionError):
        return {}


def seal(values: Mapping[str, Any]) -> str:
    """The hash of one line, which covers the hash of the line before."""
    kept = {key: value for key, value in values.items() if key not in ("hash", "redacted_by")}
    return _digest({key: value for key, value in kept.items() if value or key not in ("salt", "covers", "detail")})


def redaction_seal(values: Mapping[str, Any]) -> str:
    """The hash of what a redaction left of a line, the line's first hash included."""
    return _digest({key: value for key, value in values.items() if value is not None or key != "detail"})


def _shown(value: Any) -> str:
    """A setting's value as people read it."""
    return "nothing" if value in (None, [], {}) else value if isinstance(value, str) else json.dumps(value)


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps({key: values[key] for key in sorted(values)}, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class StatementStore(Aggregate):
    """What was said about the sides of a project: lines of its log, the latest of which is in force."""

    def __init__(self, database: Database, log: DecisionStore) -> None:
        super().__init__(database)
        self._log = log

    def add(self, project_id: int, sides: str, said_by: str) -> None:
        """Keep a statement."""
        with self._database.write() as connection:
            self._log.note_in(connection, project_id, {"key": "sides", "to": sides}, f"sides: {sides}", said_by, STATED)

    def all(self, project_id: int) -> list[dict[str, Any]]:
        """Every statement, the latest first: sides, said_by, said_at."""
        query = select(decisions).where(decisions.c.project_id == project_id, decisions.c.source == STATED)
        lines = self._database.fetch(query.order_by(decisions.c.number.desc())).all()
        return [
            {"sides": json.loads(line.detail)["to"], "said_by": line.author, "said_at": line.recorded_at}
            for line in lines
            if line.detail
        ]


class FollowUpStore(Aggregate):
    """One line per thing done, with what is needed to undo it."""

    def add(self, project_id: int, annotator_id: str, kind: str, detail: Mapping[str, Any]) -> int:
        """Note what is about to be done; its number."""
        values = {"annotator_id": annotator_id, "kind": kind, "detail": dict(detail), "made_at": self._database.clock()}
        with self._database.write() as connection:
            made = connection.execute(follow_ups.insert().values(project_id=project_id, **values))
            return int((made.inserted_primary_key or (0,))[0])

    def complete(self, number: int, detail: Mapping[str, Any]) -> None:
        """Note what was done."""
        self._database.change(update(follow_ups).where(follow_ups.c.id == number).values(detail=dict(detail)))

    def undo(self, number: int) -> None:
        """Note that it was undone."""
        self._database.change(
            update(follow_ups).where(follow_ups.c.id == number).values(undone_at=self._database.clock())
        )

    def all(self, project_id: int, *, standing: bool = False) -> list[dict[str, Any]]:
        """What was done, the latest first; `standing`: only what was not undone."""
        query = select(follow_ups).where(follow_ups.c.project_id == project_id)
        query = query.where(follow_ups.c.undone_at.is_(None)) if standing else query
        return [dict(row) for row in self._database.fetch(query.order_by(follow_ups.c.id.desc())).mappings()]
