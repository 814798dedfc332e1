"""The store: one contract on SQLite and PostgreSQL, one object for each kind of thing the service remembers.

Every public method of an aggregate is one short, durable transaction. Where one transaction touches several
aggregates, its owner calls the others' `..._in(connection, ...)`.

Sequence numbers: every accepted change advances `projects.seq` inside its transaction, under a lock on the project's
row, so that commit order is sequence order. `changes` holds what statistics see: weight -1 takes an answer out, +1
puts one in; `is_first` marks the first time an annotation id is ever judged; `at` is the time of arrival.
"""

import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from evenhand.private_files import keep_private
from evenhand.settings import Settings
from evenhand.store.accounts import LoginStore, SecretStore, UserStore
from evenhand.store.annotators import AnnotatorStore, FlagStore, LiveStore, SpendingStore
from evenhand.store.comparisons import ComparisonStore, EventStore, ItemStore, TaskStore
from evenhand.store.database import Database
from evenhand.store.decisions import DecisionStore, FollowUpStore, StatementStore
from evenhand.store.engine import BUSY_SECONDS, migrate, open_engine
from evenhand.store.messages import NotificationStore, ProblemStore, PublicationStore
from evenhand.store.people import PersonStore, RemovalStore
from evenhand.store.projects import ProjectStore
from evenhand.store.results import FindingStore, RankingStore
from evenhand.store.revisions import RevisionStore
from evenhand.store.runs import LeaseStore, RunStore

__all__ = ["Store", "open_store"]

#: Connections beyond one for each thread: those of events, and a few.
SPARE_CONNECTIONS = 12


class Store:
    """Everything the service remembers, by aggregate."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.time) -> None:
        self.database = database = Database(engine, clock)
        # What Label Studio told us.
        self.events = EventStore(database)
        self.tasks = TaskStore(database)
        self.items = ItemStore(database)
        self.annotators = AnnotatorStore(database)
        self.comparisons = ComparisonStore(database, self.events)
        self.decisions = DecisionStore(database)
        self.revisions = RevisionStore(database)
        self.projects = ProjectStore(database, self.comparisons, self.decisions)
        # What we made of it.
        self.leases = LeaseStore(database)
        self.findings = FindingStore(database)
        self.rankings = RankingStore(database)
        self.flags = FlagStore(database)
        self.spending = SpendingStore(database)
        self.runs = RunStore(database, self.leases, self.findings, self.rankings, self.flags, self.spending)
        self.live = LiveStore(database)
        self.statements = StatementStore(database, self.decisions)
        self.follow_ups = FollowUpStore(database)
        # What we told others, and who may ask.
        self.publications = PublicationStore(database)
        self.notifications = NotificationStore(database)
        self.problems = ProblemStore(database)
        self.users = UserStore(database)
        self.logins = LoginStore(database)
        self.secrets = SecretStore(database)
        self.removals = RemovalStore(database, self.decisions)
        self.people = PersonStore(database, self.decisions, self.secrets)

    @property
    def engine(self) -> Engine:
        """The database's engine."""
        return self.database.engine

    @property
    def clock(self) -> Callable[[], float]:
        """This process's clock."""
        return self.database.clock

    def close(self) -> None:
        """Give back all database connections."""
        self.database.close()


def open_store(settings: Settings, *, patience: float = BUSY_SECONDS) -> Store:
    """Open the configured database, close it to others on this machine, bring its schema up to date, and wrap it."""
    path = make_url(settings.database_url).database
    if settings.database_url.startswith("sqlite") and path:
        keep_private(Path(path), folder_is_ours=Path(path).parent == settings.model_dir)
    engine = open_engine(settings.database_url, pool_size=settings.threads + SPARE_CONNECTIONS, patience=patience)
    migrate(engine)
    return Store(engine)
