"""Where `evenhand analyze` takes the sums of files from: memory, DuckDB or Spark."""

import glob
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fdr_core import Comparisons, Detection, InputError, SufficientStatistics, evidence
from fdr_core.engines import FILE_ENGINES, read_statistics, sum_comparisons
from fdr_core.engines.files import find_files, is_remote
from fdr_core.report.document import file_data, sums_data

ENGINES = ("auto", "memory", *FILE_ENGINES)
#: Larger than this, files are summed by DuckDB where it is installed.
LARGE_BYTES = 500_000_000
#: Kinds of files that engines do not read.
_MEMORY_ONLY = (".json", ".jsonl", ".ndjson", ".eval", ".xlsx")


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
    is_saved_set = len(sources) == 1 and (Path(sources[0]) / "state.json").exists()
    if is_saved_set or (len(sources) == 1 and Path(sources[0]).suffix.lower() in _MEMORY_ONLY):
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
    reading: Mapping[str, Any] | None = None,
) -> Summed:
    """Sum the answers of files by the engine chosen."""
    chosen = choose(engine, sources)
    if chosen == "memory":
        if len(sources) > 1:
            raise InputError(f"{len(sources)} files were given; the engine memory reads one; use --engine duckdb")
        path = Path(sources[0])
        comparisons = Comparisons.from_file(path, **(reading or {}))
        return Summed(sum_comparisons(comparisons), file_data(comparisons, path), comparisons)
    given = [name for name, value in ((reading or {}).get("fields") or {}).items() if value]
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


def _timed(table: pd.DataFrame, comparisons: Comparisons) -> pd.DataFrame:
    """The table of annotators with first and last answer, median lead time and longest run."""
    code = {label: position for position, label in enumerate(comparisons.annotators.tolist())}
    order = [code[label] for label in table["annotator"]]
    c = comparisons
    columns = evidence.in_time(c.annotator, c.outcome, c.time, c.lead_time, c.n_annotators)
    timed = {name: pd.Series([values[k] for k in order], dtype=object) for name, values in columns.items()}
    return table.assign(**timed)
