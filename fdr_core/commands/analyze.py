"""`evenhand analyze`: judge answers, of a file or of an archive, and write the report."""

from __future__ import annotations

import glob
import importlib.util
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fdr_core.commands._options import Asked, detection_options, format_options, lean_options
from fdr_core.errors import InputError
from fdr_core.progress import Progress, progress_bar
from fdr_core.terminal import exits_2_on_bad_input, with_parent

if TYPE_CHECKING:
    import pandas as pd

    from fdr_core import Comparisons, Detection, SufficientStatistics
    from fdr_core.changes import Changes

# What reads and judges is loaded by whoever calls it: help and mistyped options answer at once.
ENGINES = ("auto", "memory", "duckdb", "spark")
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
    from fdr_core.engines.files import is_remote

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
    from fdr_core import Comparisons
    from fdr_core.engines import read_statistics, sum_comparisons
    from fdr_core.engines.files import find_files, is_remote
    from fdr_core.inputs.sanity import MEANT, looks_broken
    from fdr_core.report.document import file_data, sums_data

    chosen = choose(engine, sources)
    if chosen == "memory":
        if len(sources) > 1:
            raise InputError(f"{len(sources)} files were given; the engine memory reads one; use --engine duckdb")
        path = Path(sources[0])
        comparisons = Comparisons.from_file(path, **(reading or {}))
        return Summed(sum_comparisons(comparisons), file_data(comparisons, path), comparisons)
    given = [name for name, value in ((reading or {}).get("fields") or {}).items() if value]
    given += [name for name in ("swapped", "items") if (reading or {}).get(name)]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"{options} applies to files that are read with --engine memory")
    mapping = (reading or {}).get("mapping")
    statistics = read_statistics(sources, engine=chosen, master=master, mapping=mapping)
    answers = statistics.answers()
    if not (reading or {}).get("one_sided") and (seen := looks_broken(answers.annotator, answers.outcome)):
        raise InputError(f"{name_of(sources)}: {seen}; {MEANT}")
    files = [] if any(is_remote(source) for source in sources) else find_files(sources)
    return Summed(statistics, sums_data(statistics, source=name_of(sources), files=files))


def name_of(sources: Sequence[str]) -> str:
    """A short name for what was given, without the folders above it."""
    last = sources[0].rstrip("/").rpartition("/")[2] or sources[0]
    return last if len(sources) == 1 else f"{last} and {len(sources) - 1} more"


def _timed(table: pd.DataFrame, comparisons: Comparisons) -> pd.DataFrame:
    """The table of annotators with first and last answer, median lead time and longest run."""
    import pandas as pd

    from fdr_core import evidence

    code = {label: position for position, label in enumerate(comparisons.annotators.tolist())}
    order = [code[label] for label in table["annotator"]]
    c = comparisons
    columns = evidence.in_time(c.annotator, c.outcome, c.time, c.lead_time, c.n_annotators)
    timed = {name: pd.Series([values[k] for k in order], dtype=object) for name, values in columns.items()}
    return table.assign(**timed)


FLAGS_FOUND = 1


@click.command("analyze")
@click.argument("data", nargs=-1)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the report [NAME-report, after DATA]."
)
@click.option("--json", "as_json", is_flag=True, help="Print report.json; write files only with --out.")
@click.option("--pseudonymise", is_flag=True, help="Number the annotators instead of naming them.")
@click.option("--title", help="Title of the report [the data's name].")
@click.option("--fail-on-flags", is_flag=True, help="Exit with 1 if anybody is flagged.")
@click.option("--since", metavar="DATE|weeks", help="Whose lean has changed since then, or in some week.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES, case_sensitive=False),
    default="auto",
    show_default=True,
    help="What sums the answers.",
)
@click.option("--master", help="Spark: address of the cluster [local[*]].")
@detection_options()
@format_options
@lean_options
@click.pass_context
@exits_2_on_bad_input
def analyze(
    context: click.Context,
    data: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    pseudonymise: bool,
    title: str | None,
    fail_on_flags: bool,
    since: str | None,
    engine: str,
    master: str | None,
    detection: dict[str, Any],
    asked: Asked,
    reading: dict[str, Any],
) -> None:
    """
    Find the annotators in DATA who click a side instead of judging.

    DATA is a file (CSV, Parquet, JSON or JSON lines, also gzipped; - is standard input) with the columns annotator,
    left, right and choice or outcome, a Label Studio export, or one of the formats that `evenhand doctor DATA` names;
    --map names the columns of any other table. Folders, glob patterns, several files and files larger than
    memory are summed by DuckDB (pip install 'evenhand[engines]'), or with --engine spark by a cluster
    (pip install 'evenhand[spark]'). Exit code: 0 when done, 1 if --fail-on-flags is given and somebody is flagged,
    2 for bad input.

    \b
    Examples:
      evenhand analyze answers.csv --out report
      evenhand analyze judges.jsonl --map annotator=judge --json
    """
    from fdr_core.commands._summary import say_left_out, summary, terminal_width
    from fdr_core.inputs.formats import POOLED, POOLED_NOTE
    from fdr_core.report import pseudonymised, render, write_report

    if not data:
        raise click.UsageError("DATA is missing: give a file, a folder or a pattern")
    if master is not None and engine != "spark":
        raise click.UsageError("--master is the address of a Spark cluster; use it with --engine spark")
    folder = out if out is not None or as_json else Path(f"{_stem(data)}-report")
    if folder is not None:
        with_parent(folder)
    with progress_bar() as progress:
        progress("read", 0, 1)
        summed = sum_sources(data, engine=engine, master=master, reading=reading)
    if summed.statistics.annotators.tolist() == [POOLED]:
        click.echo(POOLED_NOTE, err=True)
    say_left_out(summed.data.get("excluded") or {}, summed.comparisons)
    with progress_bar() as progress:
        report = judge(summed, detection, asked, since=since, title=title, progress=progress)
    if pseudonymise:
        report = pseudonymised(report)
    written = [] if folder is None else write_report(report, folder)
    if as_json:
        click.echo(render(report, "report.json"), nl=False)
    else:
        click.echo("\n".join(summary(report, terminal_width())))
        click.echo(f"Written: {', '.join(path.name for path in written[1:])}\nOpen {written[0]}")
    if fail_on_flags and any(row["flagged"] for row in report["annotators"]):
        context.exit(FLAGS_FOUND)


def judge(
    summed: Summed,
    detection: Mapping[str, Any],
    asked: Asked | None = None,
    *,
    since: str | None = None,
    title: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge the sums and report."""
    from fdr_core import detect
    from fdr_core.report import report_of_data

    other = asked.report(summed.comparisons, q=detection["q"]) if asked and asked.leans else {}
    moment = None if since in (None, "weeks") else _moment(since)
    found = detect(summed.comparisons or summed.statistics, **detection, progress=progress, clock=time.monotonic)
    if since is not None:
        other["changes"] = _changes(summed, found, moment)
    today = time.time() // 86_400 * 86_400
    return report_of_data(summed.with_times(found), summed.data, summed.statistics, title=title, made_at=today, **other)


def _moment(since: str | None) -> float:
    """The moment that a date names, 0:00 UTC where it names none."""
    from fdr_core.inputs.columns import read_times

    try:
        found = read_times([since])
    except InputError as error:
        raise click.BadParameter(f"--since {since!r}: expected a date such as 2025-03-31, or weeks") from error
    return float(found[0]) if found is not None else math.nan


def _changes(summed: Summed, found: Detection, since: float | None) -> Changes:
    if summed.comparisons is None or summed.comparisons.time is None:
        raise InputError("--since needs the times of single answers; name them with --map time=…, and give one file")
    from fdr_core.changes import lean_changes

    return lean_changes(summed.comparisons, since=since, q=found.parameters["q"], audit=found.audit)


def _stem(data: tuple[str, ...]) -> str:
    """The name the report's folder is made of."""
    return Path(name_of(data[:1])).stem.replace("*", "").strip(".-") or "data"
