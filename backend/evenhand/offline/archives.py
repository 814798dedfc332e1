"""Where `evenhand analyze` takes its sums from: memory, DuckDB, Spark, or the service's own PostgreSQL."""

import glob
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from evenhand.domain import Project
from evenhand.judged import Policy
from evenhand.offline.files import load_comparisons
from evenhand.report.document import file_data, sums_data
from evenhand.runs.run import note_left_out
from evenhand.runs.statistics import coin_source_of
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from fdr_core import Comparisons, Detection, InputError, SufficientStatistics, evidence
from fdr_core.engines import FILE_ENGINES, read_statistics, sum_comparisons, sum_table
from fdr_core.engines.expression import foreign_errors, load_ibis
from fdr_core.engines.files import find_files, is_remote

ENGINES = ("auto", "memory", *FILE_ENGINES, "postgres")
#: Larger than this, files are summed by DuckDB where it is installed.
LARGE_BYTES = 500_000_000
ROWS_PER_BATCH = 100_000
#: Kinds of files that engines do not read.
_MEMORY_ONLY = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class Summed:
    """Sums to judge, what the report says of the data, and the answers themselves where they are in memory."""

    statistics: SufficientStatistics
    data: Mapping[str, Any]
    comparisons: Comparisons | None = None

    def with_times(self, found: Detection) -> Detection:
        """Add the evidence that needs the times of single answers."""
        if self.comparisons is None or (self.comparisons.time is None and self.comparisons.lead_time is None):
            return found
        return replace(found, annotators=_timed(found.annotators, self.comparisons))


def choose(engine: str, sources: Sequence[str]) -> str:
    """Settle `auto`: memory for one file of ordinary size, DuckDB for anything more."""
    if engine != "auto":
        return engine
    if len(sources) == 1 and Path(sources[0]).suffix.lower() in _MEMORY_ONLY:
        return "memory"
    if any(is_remote(source) for source in sources):
        return "spark"
    is_one_file = len(sources) == 1 and (Path(sources[0]).is_file() or not glob.has_magic(sources[0]))
    if is_one_file and not Path(sources[0]).is_dir():
        is_small = not Path(sources[0]).exists() or Path(sources[0]).stat().st_size <= LARGE_BYTES
        return "memory" if is_small or importlib.util.find_spec("duckdb") is None else "duckdb"
    return "duckdb"


def sum_sources(
    sources: Sequence[str],
    *,
    engine: str,
    master: str | None = None,
    fields: Mapping[str, Any] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> Summed:
    """Sum the answers of files by the engine chosen."""
    chosen = choose(engine, sources)
    given = {name: value for name, value in (fields or {}).items() if value}
    if chosen == "memory":
        if len(sources) > 1:
            raise InputError(f"{len(sources)} files were given; the engine memory reads one; use --engine duckdb")
        path = Path(sources[0])
        comparisons = load_comparisons(path, fields=given, reading=reading)
        return Summed(sum_comparisons(comparisons), file_data(comparisons, path), comparisons)
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"{options} applies to Label Studio exports, which are read with --engine memory")
    mapping = (reading or {}).get("mapping")
    statistics = read_statistics(sources, engine=chosen, master=master, mapping=mapping)
    files = [] if any(is_remote(source) for source in sources) else find_files(sources)
    return Summed(statistics, sums_data(statistics, source=name_of(sources), files=files))


def name_of(sources: Sequence[str]) -> str:
    """A short name for what was given, without the folders above it."""
    last = sources[0].rstrip("/").rpartition("/")[2] or sources[0]
    return last if len(sources) == 1 else f"{last} and {len(sources) - 1} more"


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


def _timed(table: pd.DataFrame, comparisons: Comparisons) -> pd.DataFrame:
    """The table of annotators with first and last answer, median lead time and longest run."""
    code = {label: position for position, label in enumerate(comparisons.annotators.tolist())}
    order = [code[label] for label in table["annotator"]]
    c = comparisons
    columns = evidence.in_time(c.annotator, c.outcome, c.time, c.lead_time, c.n_annotators)
    timed = {name: pd.Series([values[k] for k in order], dtype=object) for name, values in columns.items()}
    return table.assign(**timed)
