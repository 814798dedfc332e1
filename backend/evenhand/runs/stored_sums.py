"""A project's answers summed inside the service's PostgreSQL, for `evenhand analyze --engine postgres`."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from evenhand.domain import Project
from evenhand.judged import Policy
from evenhand.runs.run import note_left_out
from evenhand.runs.statistics import coin_source_of
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from fdr_core import InputError, SufficientStatistics
from fdr_core.commands._archives import Summed
from fdr_core.engines import sum_table
from fdr_core.engines.expression import foreign_errors, load_ibis
from fdr_core.report.document import sums_data

ROWS_PER_BATCH = 100_000


def sum_project(settings: Settings, project_id: int) -> Summed:
    """Sum a project's answers inside the service's PostgreSQL; only the sums travel."""
    if not settings.database_url.startswith("postgresql"):
        raise InputError(
            "the service's database is SQLite, which needs no engine; `evenhand run` and `evenhand report` judge it, "
            "or set DATABASE_URL to the PostgreSQL database"
        )
    with closing(open_store(settings)) as store:
        project = store.projects.get(project_id)
        statistics = sum_stored(store, project, settings.database_url)
        note_left_out(store, project, statistics)
    return Summed(statistics, sums_data(statistics, source=project.title, files=()))


def sum_stored(store: Store, project: Project, database_url: str) -> SufficientStatistics:
    """The expression on the table `comparisons`: what is judged there is what a run would judge."""
    import psycopg  # the driver alone: Ibis compiles, and a cursor on the server streams the result

    where = f"project {project.id}: "
    address = database_url.replace("postgresql+psycopg://", "postgresql://", 1)
    with foreign_errors(where), psycopg.connect(address) as connection:
        engine = load_ibis().postgres.from_connection(connection)
        table = _judged(engine.table("comparisons"), project)

        def stream(expression: Any) -> Iterator[pa.RecordBatch]:
            names = list(expression.columns)
            with connection.cursor(name="evenhand_sums") as cursor:
                cursor.execute(engine.compile(expression))
                while rows := cursor.fetchmany(ROWS_PER_BATCH):
                    yield pa.RecordBatch.from_arrays([pa.array(part) for part in zip(*rows, strict=True)], names)

        return sum_table(table, stream, where=where)


def _judged(table: Any, project: Project) -> Any:
    """The rows that count, under the names every engine knows."""
    rows = table.filter(table.project_id == project.id, *Policy.of(project.config).ibis(table))
    task = load_ibis().literal("task:") + rows.task_id.cast("string")
    return rows.select(
        annotator=rows.annotator_id,
        left=rows.left_item,
        right=rows.right_item,
        outcome=rows.outcome,
        **{coin_source_of(project): rows.coin.coalesce(task)},
    )
