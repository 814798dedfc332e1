"""One person's rows everywhere: collecting them, and taking them out in one transaction."""

import secrets as randomness
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, and_, delete, func, or_, select, update

from evenhand.domain import Project
from evenhand.judged import Policy
from evenhand.pseudonyms import PSEUDONYM_KEY, pseudonym
from evenhand.store.accounts import SecretStore
from evenhand.store.annotators import KEY_NAME, STATUS, former_name, mark
from evenhand.store.database import Aggregate, Database, project_row
from evenhand.store.decisions import ERASED_AUTHOR, DecisionStore
from evenhand.store.engine import compact
from evenhand.store.projects import to_project
from evenhand.store.schema import (
    annotators,
    changes,
    comparisons,
    decisions,
    erasures,
    flags,
    follow_ups,
    live_evidence,
    metadata,
    notifications,
    problems,
    projects,
    publications,
    revisions,
    run_annotators,
    run_paths,
    runs,
    spending,
    users,
)

Row = dict[str, Any]
Rows = dict[str, list[Row]]
# Tables that say whose each row is, and in which column.
OWNED: tuple[tuple[Table, str], ...] = (
    (annotators, "annotator_id"),
    (comparisons, "annotator_id"),
    (changes, "annotator_id"),
    (live_evidence, "annotator_id"),
    (flags, "annotator_id"),
    (spending, "annotator_id"),
    (revisions, "annotator_id"),
    (follow_ups, "annotator_id"),
)
#: Tables in which one person may have a million rows, with the column that tells the rows apart.
SLICED: tuple[tuple[Table, str], ...] = ((comparisons, "annotation_id"), (changes, "seq"))
SLICE = 5_000
REPLACEMENT = "[erased]"
SHORTEST_NAME = 4  # shorter names would be found inside ordinary words
STUB: Row = {
    "annotator_id": None, "left_item": None, "right_item": None, "coin": None, "stratum": None, "outcome": None,
    "status": STATUS, "reason": None, "ground_truth": False, "lead_time": None, "created_at": 0.0, "updated_at": 0.0,
    "first_seq": None, "answers": None, "digest": None, "standing": None, "word": None, "pairs": None,
}  # fmt: skip


class PersonStore(Aggregate):
    """Everything about one person of a Label Studio, by project."""

    def __init__(self, database: Database, decisions: DecisionStore, secrets: SecretStore) -> None:
        super().__init__(database)
        self._decisions, self._secrets = decisions, secrets

    def find(self, wanted: str) -> dict[str, set[str]]:
        """Annotator ids by Label Studio address, for a user id or an e-mail address."""
        query = select(projects.c.ls_url, annotators.c.annotator_id).join(
            projects, projects.c.id == annotators.c.project_id
        )
        matches = or_(annotators.c.annotator_id == wanted, func.lower(annotators.c.email) == wanted.lower())
        stored = select(projects.c.ls_url, comparisons.c.annotator_id).join(
            projects, projects.c.id == comparisons.c.project_id
        )
        found: dict[str, set[str]] = {}
        with self._database.read() as connection:
            rows = [
                *connection.execute(query.where(matches)),
                *connection.execute(stored.where(comparisons.c.annotator_id == wanted).distinct()),
            ]
        for url, annotator_id in rows:
            found.setdefault(url, set()).add(annotator_id)
        return found

    def projects(self, ls_url: str) -> list[Project]:
        """All projects of a Label Studio, those deleted there included."""
        query = select(projects).where(projects.c.ls_url == ls_url).order_by(projects.c.id)
        return [to_project(row) for row in self._database.fetch(query)]

    def names(self, ls_url: str, ids: Collection[str]) -> set[str]:
        """Names and addresses under which a person is known."""
        query = select(annotators.c.name, annotators.c.email).join(projects, projects.c.id == annotators.c.project_id)
        rows = self._database.fetch(query.where(projects.c.ls_url == ls_url, annotators.c.annotator_id.in_(ids)))
        return {part for row in rows for text in row if text for part in (text, former_name(text))}

    def rows(self, project_id: int, ids: Collection[str], names: Collection[str]) -> Rows:
        """Every row of one project about these ids, by table."""
        shown = self._shown_names(project_id, ids)
        with self._database.read(snapshot=True) as connection:
            found = {
                table.name: _fetch(connection, table, and_(table.c.project_id == project_id, table.c[column].in_(ids)))
                for table, column in OWNED
            }
            found["run_annotators"] = _run_rows(connection, project_id, ids)
            lines = _fetch(connection, decisions, decisions.c.project_id == project_id)
            found["decisions_about"] = [line for line in lines if line["annotator_id"] in ids]
            found["decisions_by"] = [line for line in lines if line["author"] in _author_names(ids, names)]
            sent = _fetch(connection, notifications, notifications.c.project_id == project_id)
            found["notifications"] = [row for row in sent if _is_about(row, project_id, ids, shown)]
            noted = _fetch(connection, publications, publications.c.project_id == project_id)
            found["publications"] = [row for row in noted if _names_one(row["key"], ids)]
        return found

    def erase(self, ls_url: str, ids: Collection[str]) -> dict[int, dict[str, int]]:
        """Take a person out of every project of a Label Studio; rows touched by project.

        The mark that keeps new answers out comes first, then large tables in slices, so that events are not held up,
        then the rest in one transaction. What is cut off in between is completed by erasing again.
        """
        key = self._secrets.get(KEY_NAME)
        names = self.names(ls_url, ids)
        shown = {project.id: self._shown_names(project.id, ids) for project in self.projects(ls_url)}
        marks = [
            {"ls_url": ls_url, "token": mark(key, one), "erased_at": self._database.clock()} for one in sorted(ids)
        ]
        self._database.change(self._database.insert_new(erasures), marks)
        sliced = {project.id: self._erase_slices(project.id, ids) for project in self.projects(ls_url)}
        counts: dict[int, dict[str, int]] = {}
        with self._database.write() as connection:
            lock = select(projects).where(projects.c.ls_url == ls_url).order_by(projects.c.id).with_for_update()
            for row in connection.execute(lock).all():
                rest = self._erase_in(connection, row, ids, names, shown.get(row.id, set()))
                counts[row.id] = dict(Counter(sliced.get(row.id, {})) + Counter(rest))
            _scrub_problems(connection, names)
            theirs = (users.c.ls_url.in_(("", ls_url)), users.c.ls_user.in_(ids))
            connection.execute(update(users).where(*theirs).values(ls_url=None, ls_user=None, linked_by=None))
        return counts

    def readmit(self, ls_url: str, annotator_id: str) -> bool:
        """Take back the mark of an erased person; whether there was one. The next pull reads everything."""
        token = mark(self._secrets.get(KEY_NAME), annotator_id)
        with self._database.write() as connection:
            gone = delete(erasures).where(erasures.c.ls_url == ls_url, erasures.c.token == token)
            if connection.execute(gone).rowcount == 0:
                return False
            connection.execute(update(projects).where(projects.c.ls_url == ls_url).values(full_pull_needed=True))
            return True

    def compact(self) -> None:
        """Give the space of erased rows back, so that the files no longer hold them; raises StoreBusyError."""
        tables = (*(table for table, _ in OWNED), run_annotators, run_paths, decisions, notifications)
        compact(self._database.engine, tables)

    def _erase_slices(self, project_id: int, ids: Collection[str]) -> dict[str, int]:
        """Take most rows of the large tables out, a few thousand in a transaction."""
        tally: Counter[str] = Counter()
        for table, key in SLICED:
            while touched := self._erase_slice(project_id, ids, table, table.c[key]):
                tally[table.name] += touched
                if touched < SLICE:
                    break
        return dict(tally)

    def _erase_slice(self, project_id: int, ids: Collection[str], table: Table, key: Any) -> int:
        """Take out one slice; rows touched."""
        mine = (table.c.project_id == project_id, table.c.annotator_id.in_(ids))
        with self._database.write() as connection:
            found = connection.execute(select(key).where(*mine).limit(SLICE)).scalars().all()
            if not found:
                return 0
            these = (*mine, key.in_(found))
            if table is comparisons:
                row = connection.execute(select(projects).where(projects.c.id == project_id).with_for_update()).one()
                return _stub_comparisons(connection, row, these)["comparisons"]
            return int(connection.execute(delete(table).where(*these)).rowcount)

    def _shown_names(self, project_id: int, ids: Collection[str]) -> set[str]:
        """The names under which a project's cards and messages show these ids."""
        key = self._secrets.get(PSEUDONYM_KEY)
        return {*ids, *(pseudonym(key, project_id, one) for one in ids)}

    def _erase_in(
        self, connection: Connection, project: Any, ids: Collection[str], names: Collection[str], shown: Collection[str]
    ) -> dict[str, int]:
        """Erase in one project; what statistics see changes by one step of the sequence number."""
        mine = (comparisons.c.project_id == project.id, comparisons.c.annotator_id.in_(ids))
        tally = _stub_comparisons(connection, project, mine)
        for table, column in OWNED:
            if table is not comparisons:
                mine = (table.c.project_id == project.id, table.c[column].in_(ids))
                tally[table.name] = connection.execute(delete(table).where(*mine)).rowcount
        by_them = (revisions.c.project_id == project.id, revisions.c.by_id.in_(ids))
        connection.execute(update(revisions).where(*by_them).values(by_id=None))
        tally["run_annotators"] = _erase_from_runs(connection, project.id, ids)
        tally["notifications"] = _erase_messages(connection, project.id, ids, shown)
        pseudonymous = f"erased-{randomness.token_hex(4)}"
        authors = _author_names(ids, names)

        def redact(line: Mapping[str, Any]) -> Row | None:
            is_about = line["annotator_id"] in ids
            is_by, is_named = line["author"] in authors, _mentions(line["comment"], names)
            if not (is_about or is_by or is_named):
                return None
            return {
                "annotator_id": pseudonymous if is_about else line["annotator_id"],
                "author": ERASED_AUTHOR if is_by else line["author"],
                "comment": "" if is_about or is_named else line["comment"],
                "detail": None if is_about or is_named else line["detail"],
            }

        tally["decisions"] = self._decisions.redact_in(connection, project.id, pseudonymous, redact)
        return {name: number for name, number in tally.items() if number}


def _stub_comparisons(connection: Connection, project: Any, mine: Sequence[Any]) -> dict[str, int]:
    """Leave of each answer only that there is one, and bring the project's counts and sequence number up to date."""
    policy, moved = Policy.of(project.config), Counter[str]()
    groups = select(
        comparisons.c.status, comparisons.c.ground_truth, comparisons.c.outcome.is_not(None), func.count()
    ).where(*mine, ~comparisons.c.deleted)
    for status, truth, has_outcome, number in connection.execute(groups.group_by(*groups.selected_columns[:3])):
        moved[status] -= number
        moved[STATUS] += number
        kind = {"deleted": False, "status": status, "ground_truth": truth, "outcome": 0.0 if has_outcome else None}
        moved["ground_truth"] -= number * bool(truth)
        moved["judged"] -= number * policy.judges(kind)
    seq = project.seq + 1
    touched = connection.execute(update(comparisons).where(*mine).values(**STUB, seq=seq)).rowcount
    values: Row = {"seq": seq, "erased_seq": seq}
    if moved:
        names = {*project.counts, *moved}
        values["counts"] = {name: project.counts.get(name, 0) + moved[name] for name in sorted(names)}
    connection.execute(update(projects).where(projects.c.id == project.id).values(**values))
    return {"comparisons": touched}


def _erase_from_runs(connection: Connection, project_id: int, ids: Collection[str]) -> int:
    """Take the person's rows and paths out of all stored runs; totals of past runs stay as they were."""
    own = select(runs.c.id).where(runs.c.project_id == project_id)
    gone = delete(run_annotators).where(run_annotators.c.run_id.in_(own), run_annotators.c.annotator.in_(ids))
    touched = connection.execute(gone).rowcount
    for run_id in connection.execute(own).scalars().all():
        path = connection.execute(select(run_paths.c.path).where(run_paths.c.run_id == run_id)).scalar()
        if path and any(one in path.get("annotators", ()) for one in ids):
            kept = [place for place, name in enumerate(path["annotators"]) if name not in ids]
            shorter = {
                **path,
                "annotators": [path["annotators"][place] for place in kept],
                "gamma": [[point[place] for place in kept] for point in path["gamma"]],
            }
            connection.execute(update(run_paths).where(run_paths.c.run_id == run_id).values(path=shorter))
    return touched


def _erase_messages(connection: Connection, project_id: int, ids: Collection[str], shown: Collection[str]) -> int:
    """Forget queued and sent alerts about the person, and that they were sent."""
    touched = 0
    for row in _fetch(connection, notifications, notifications.c.project_id == project_id):
        if _is_about(row, project_id, ids, shown):
            touched += connection.execute(delete(notifications).where(notifications.c.key == row["key"])).rowcount
    for row in _fetch(connection, publications, publications.c.project_id == project_id):
        if _names_one(row["key"], ids):
            same = [publications.c[name] == row[name] for name in ("project_id", "channel", "key")]
            connection.execute(delete(publications).where(*same))
    return touched


def _scrub_problems(connection: Connection, names: Collection[str]) -> None:
    """Take the person's names out of messages."""
    for row in connection.execute(select(problems.c.id, problems.c.message)).all():
        if _mentions(row.message, names):
            message = row.message
            for name in sorted(names, key=len, reverse=True):
                message = message.replace(name, REPLACEMENT)
            connection.execute(update(problems).where(problems.c.id == row.id).values(message=message))


def _run_rows(connection: Connection, project_id: int, ids: Collection[str]) -> list[Row]:
    query = (
        select(run_annotators, runs.c.finished_at)
        .join(runs, runs.c.id == run_annotators.c.run_id)
        .where(runs.c.project_id == project_id, run_annotators.c.annotator.in_(ids))
        .order_by(run_annotators.c.run_id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def _fetch(connection: Connection, table: Table, condition: Any) -> list[Row]:
    query = select(table).where(condition).order_by(*table.primary_key.columns)
    return [dict(row) for row in connection.execute(query).mappings()]


def _author_names(ids: Collection[str], names: Collection[str]) -> set[str]:
    """How a reviewer's name stands in the log."""
    return {*names, *(f"Label Studio user {one}" for one in ids)}


def _mentions(text: str, names: Collection[str]) -> bool:
    return any(len(name) >= SHORTEST_NAME and name.lower() in text.lower() for name in names)


def _is_about(row: Mapping[str, Any], project_id: int, ids: Collection[str], shown: Collection[str]) -> bool:
    """Whether a queued alert speaks of the person."""
    if str((row["payload"] or {}).get("annotator")) in shown:
        return True
    _, _, rest = str(row["key"]).partition(f":{project_id}:")
    return any(rest == one or rest.startswith(f"{one}:") for one in ids)


def _names_one(key: str, ids: Sequence[str] | Collection[str]) -> bool:
    """Whether a remembered alert is the person's."""
    return any(key in (f"flag:{one}", f"warning:{one}") for one in ids)


ERASED_TITLE = "[erased]"


class RemovalStore(Aggregate):
    """Erasing whole projects."""

    def __init__(self, database: Database, decisions: DecisionStore) -> None:
        super().__init__(database)
        self._decisions = decisions

    def erase(self, project_id: int) -> int:
        """Delete a project with its alerts projects and all that is stored about them; how many rows went.

        The log of decisions is append-only: its lines stay without names and comments, under a bare project.
        """
        cards = self._database.fetch(select(projects.c.id).where(projects.c.alerts_for == project_id)).scalars().all()
        with self._database.write() as connection:
            return sum(self._erase_in(connection, number) for number in (*cards, project_id))

    def _erase_in(self, connection: Connection, project_id: int) -> int:
        project_row(connection, project_id, lock=True)
        pseudonym = f"erased-{randomness.token_hex(4)}"

        def redact(_: Mapping[str, Any]) -> dict[str, Any]:
            return {"annotator_id": pseudonym, "author": ERASED_AUTHOR, "comment": "", "detail": None}

        self._decisions.redact_in(connection, project_id, pseudonym, redact)
        gone = _delete_rows(connection, project_id)
        mine = projects.c.id == project_id
        logged = select(func.count()).select_from(decisions).where(decisions.c.project_id == project_id)
        if connection.execute(logged).scalar_one():
            bare = {"title": ERASED_TITLE, "label_config": "", "setup_params": {}, "task_fields": [], "counts": {}}
            connection.execute(update(projects).where(mine).values(**bare, last_pull=None))
            return gone
        return gone + connection.execute(delete(projects).where(mine)).rowcount


def _delete_rows(connection: Connection, project_id: int) -> int:
    """Delete a project's rows everywhere but in its log; those that refer to others go first."""
    own_runs = select(runs.c.id).where(runs.c.project_id == project_id)
    gone = 0
    for table in reversed(metadata.sorted_tables):
        if table in (projects, decisions):
            continue
        if "run_id" in table.c and "project_id" not in table.c:
            gone += connection.execute(delete(table).where(table.c.run_id.in_(own_runs))).rowcount
        elif "project_id" in table.c and table is not runs:
            gone += connection.execute(delete(table).where(table.c.project_id == project_id)).rowcount
    return gone + connection.execute(delete(runs).where(runs.c.project_id == project_id)).rowcount
