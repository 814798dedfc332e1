"""Projects: found by Label Studio's address, id and creation epoch; their settings and pulls."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select, update

from evenhand.domain import Kind, Project, ProjectRef
from evenhand.project_config import ProjectConfig
from evenhand.store.comparisons import ComparisonStore
from evenhand.store.database import Aggregate, Database, missing_project
from evenhand.store.decisions import DecisionStore
from evenhand.store.schema import projects

READING_KEYS = ("control", "controls", "item_left", "item_right", "coin", "stratum", "answers", "judges")
MAX_FIELDS = 200
#: Between Label Studio's id of a project and ours where the same number is taken.
PREFIX = 1_000_000


class ProjectStore(Aggregate):
    """Registering and finding projects."""

    def __init__(self, database: Database, comparisons: ComparisonStore, decisions: DecisionStore) -> None:
        super().__init__(database)
        self._comparisons, self._decisions = comparisons, decisions

    def register(
        self,
        ls_url: str,
        ref: ProjectRef,
        *,
        title: str = "",
        label_config: str = "",
        kind: Kind = "comparison",
        alerts_for: int | None = None,
        config: ProjectConfig | None = None,
        by: str = "evenhand",
    ) -> Project:
        """Find or create the project (ref.epoch None counts as 0); an existing one keeps its settings.

        Its id is Label Studio's; where another project has that already (of another Label Studio, or of one that
        began anew), and for demos, with a prefix of millions. One that was let go is taken up again; a row made from
        an event before the address was known (ls_url '') is adopted.
        """
        epoch = ref.epoch or 0
        values = {
            "ls_url": ls_url,
            "ls_project_id": ref.ls_project_id,
            "epoch": epoch,
            "title": title or f"Project {ref.ls_project_id}",
            "kind": kind,
            "label_config": label_config,
            "config": (config or ProjectConfig.model_validate({})).to_json(),
            "setup_params": {},
            "task_fields": [],
            "alerts_for": alerts_for,
            "seq": 0,
            "live_seq": 0,
            "created_at": self._database.clock(),
            "full_pull_needed": True,
            "counts": {},
        }
        with self._database.write() as connection:
            if ls_url:
                self._adopt(connection, ls_url, ref.ls_project_id, epoch)
            mine = (
                projects.c.ls_url == ls_url,
                projects.c.ls_project_id == ref.ls_project_id,
                projects.c.epoch == epoch,
            )
            is_new, number = False, ref.ls_project_id + (PREFIX if kind == "demo" else 0)
            while not is_new and connection.execute(select(projects.c.id).where(*mine)).first() is None:
                insert = self._database.insert(projects).values(id=number, **values).on_conflict_do_nothing()
                is_new = connection.execute(insert.returning(projects.c.id)).first() is not None
                number += PREFIX
            back = update(projects).where(*mine, projects.c.deleted_at.is_not(None))
            connection.execute(back.values(deleted_at=None, full_pull_needed=True))
            found = to_project(connection.execute(select(projects).where(*mine)).one())
            if is_new and config is not None:
                usual = ProjectConfig.model_validate({}).to_json()
                self._decisions.note_settings_in(connection, found.id, usual, found.config, by)
            return found

    def find(self, ls_url: str, ref: ProjectRef) -> Project | None:
        """The project of this address (any, if '') with this id and epoch; without epoch the newest one."""
        values = {"number": ref.ls_project_id, "url": ls_url, "epoch": ref.epoch}
        row = self._database.fetch(_find(bool(ls_url), ref.epoch is not None), values).first()
        return to_project(row) if row else None

    def get(self, project_id: int) -> Project:
        """The project with our id; raises NotFoundError."""
        row = self._database.fetch(select(projects).where(projects.c.id == project_id)).first()
        if row is None:
            raise missing_project(project_id)
        return to_project(row)

    def is_served(self, project_id: int) -> bool:
        """Whether the project is known and was not let go."""
        query = select(projects.c.id).where(projects.c.id == project_id, projects.c.deleted_at.is_(None))
        return self._database.fetch(query).first() is not None

    def all(self, *, kinds: Collection[Kind] = ("comparison", "demo")) -> list[Project]:
        """Projects that were not deleted in Label Studio, by id."""
        query = select(projects).where(projects.c.deleted_at.is_(None), projects.c.kind.in_(kinds))
        return [to_project(row) for row in self._database.fetch(query.order_by(projects.c.id))]

    def set_config(self, project_id: int, config: ProjectConfig, *, by: str = "evenhand") -> Project:
        """Store new settings, with a line of the log for each that changes.

        Answers that count or no longer count follow; a new reading asks for a full pull.
        """
        with self._database.write() as connection:
            row = _locked(connection, project_id)
            former = ProjectConfig.model_validate(row.config)
            values: dict[str, Any] = {"config": config.to_json()}
            if any(getattr(former, key) != getattr(config, key) for key in READING_KEYS):
                values["full_pull_needed"] = True
            connection.execute(update(projects).where(projects.c.id == project_id).values(**values))
            self._decisions.note_settings_in(connection, project_id, former.to_json(), config.to_json(), by)
            self._comparisons.rejudge(connection, project_id, former)
        return self.get(project_id)

    def describe(
        self,
        project_id: int,
        *,
        title: str | None = None,
        label_config: str | None = None,
        ls_updated_at: float | None = None,
        setup_params: Mapping[str, Any] | None = None,
    ) -> Project:
        """Take over what Label Studio says of a project; a description older than the known one is ignored."""
        with self._database.write() as connection:
            row = _locked(connection, project_id)
            is_older = ls_updated_at is not None and ls_updated_at < (row.ls_updated_at or 0.0)
            values: dict[str, Any] = {}
            if title and not is_older:
                values["title"] = title
            if label_config is not None and not is_older and label_config != row.label_config:
                values["label_config"] = label_config
                values["full_pull_needed"] = True
            if ls_updated_at is not None and not is_older:
                values["ls_updated_at"] = ls_updated_at
            if setup_params is not None:
                values["setup_params"] = dict(setup_params)
            if values:
                connection.execute(update(projects).where(projects.c.id == project_id).values(**values))
        return self.get(project_id)

    def add_task_fields(self, project_id: int, fields: Collection[str]) -> Project:
        """Remember which data fields tasks have, so that settings can be checked against them."""
        with self._database.write() as connection:
            known = set(_locked(connection, project_id).task_fields)
            merged = sorted(known | {field[:200] for field in fields})[:MAX_FIELDS]
            if merged != sorted(known):
                connection.execute(update(projects).where(projects.c.id == project_id).values(task_fields=merged))
        return self.get(project_id)

    def mark_deleted(self, project_id: int) -> None:
        """The project is gone in Label Studio; its data stay readable."""
        self._set(project_id, deleted_at=self._database.clock())

    def begin_pull(self, project_id: int) -> int:
        """The sequence number to pass as `as_of` for what a pull started now will find."""
        return self.get(project_id).seq

    def agree(self, project_id: int, agreed: Mapping[str, Any]) -> Project:
        """Note which labelling setup answers are read by, and what was said of it; without one the next that fits."""
        self._set(project_id, agreed=dict(agreed))
        return self.get(project_id)

    def request_full_pull(self, project_id: int) -> None:
        """Ask the next pull to read everything."""
        self._set(project_id, full_pull_needed=True)

    def take_up_pull(self, project_id: int) -> None:
        """Note that a pull that was asked for begins."""
        self._set(project_id, full_pull_needed=False, hinted_at=None)

    def hint(self, project_id: int) -> None:
        """Somebody says that the project changed: it is read again soon."""
        self._set(project_id, hinted_at=self._database.clock())

    def take_up_hint(self, project_id: int) -> None:
        """Note that a reading begins; a hint that comes meanwhile asks again."""
        self._set(project_id, hinted_at=None)

    def finish_pull(
        self, project_id: int, summary: Mapping[str, Any], *, watermark: float | None, was_full: bool
    ) -> None:
        """Record what a pull repaired and where the next incremental one starts."""
        values: dict[str, Any] = {
            "last_pull_at": self._database.clock(),
            "last_pull": dict(summary),
            "pull_watermark": watermark,
        }
        if was_full:
            values["full_pull_needed"] = False
        self._set(project_id, **values)

    def _set(self, project_id: int, **values: Any) -> None:
        """Change columns of one project."""
        self._database.change(update(projects).where(projects.c.id == project_id).values(**values))

    def _adopt(self, connection: Connection, ls_url: str, ls_project_id: int, epoch: int) -> None:
        """Give a project first heard of in an event its address."""
        mine = (projects.c.ls_project_id == ls_project_id, projects.c.epoch == epoch)
        known = connection.execute(select(projects.c.id).where(projects.c.ls_url == ls_url, *mine)).first()
        if known is None:
            connection.execute(update(projects).where(projects.c.ls_url == "", *mine).values(ls_url=ls_url))


@cache
def _find(with_url: bool, with_epoch: bool) -> Any:
    """The statement that finds a project; built once, since every event needs it."""
    query = select(projects).where(projects.c.ls_project_id == bindparam("number"))
    if with_url:
        query = query.where(or_(projects.c.ls_url == bindparam("url"), projects.c.ls_url == ""))
    if with_epoch:
        query = query.where(projects.c.epoch == bindparam("epoch"))
    return query.order_by(projects.c.epoch.desc(), (projects.c.ls_url == "").asc(), projects.c.id.desc()).limit(1)


def _locked(connection: Connection, project_id: int) -> Any:
    """The project's row, locked until the transaction ends."""
    row = connection.execute(select(projects).where(projects.c.id == project_id).with_for_update()).first()
    if row is None:
        raise missing_project(project_id)
    return row


def to_project(row: Any) -> Project:
    """A stored row as a record."""
    values = dict(row._mapping)
    values["task_fields"] = tuple(values["task_fields"])
    return Project(**values)
