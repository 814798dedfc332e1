"""`evenhand analyze`: judge answers, of a file or of an archive, and write the report."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backend.commands._options import data_options, detection_options
from backend.engines import ENGINES, Summed, name_of, sum_project, sum_sources
from backend.errors import BackendError
from backend.offline import BadInput, exits_2_on_bad_input, progress_bar
from backend.report import pseudonymised, render, report_of_data, write_report
from backend.settings import Settings
from backend.terminal import printable
from fdr_core import detect

MOST_ROWS = 15
FLAGS_FOUND = 1


@click.command("analyze")
@click.argument("data", nargs=-1)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the report [the data's name-report]."
)
@click.option("--json", "as_json", is_flag=True, help="Print report.json; write files only with --out.")
@click.option("--pseudonymise", is_flag=True, help="Number the annotators instead of naming them.")
@click.option("--fail-on-flags", is_flag=True, help="Exit with 1 if anybody is flagged.")
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True, help="What sums the answers.")
@click.option("--master", help="Spark: address of the cluster [local[*]].")
@click.option("--project", type=int, help="PostgreSQL: number of the service's project.")
@detection_options(
    "q", "method", "path", "cut", "copies", "draws", "seed", "sides", "min_bias", "aggregate", "statistic"
)
@data_options
@click.pass_context
@exits_2_on_bad_input
def analyze(
    context: click.Context,
    data: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    pseudonymise: bool,
    fail_on_flags: bool,
    engine: str,
    master: str | None,
    project: int | None,
    fields: dict[str, Any],
    detection: dict[str, Any],
) -> None:
    """
    Find who clicks a side instead of judging in DATA.

    DATA is a CSV or Parquet file (annotator, left, right and choice or outcome; or crowd-kit's worker, left, right,
    label), or a Label Studio export (JSON or JSON-MIN). Folders, glob patterns, several files and files larger than
    memory are summed by DuckDB (pip install 'evenhand[engines]'), or with --engine spark by a cluster
    (pip install 'evenhand[spark]'). --engine postgres --project N takes a project of the service at DATABASE_URL
    instead of DATA. Exit code: 0 done, 1 flags found with --fail-on-flags, 2 bad input.
    """
    _refuse_contradictions(data, engine, master, project)
    summed = _sum(data, engine=engine, master=master, project=project, fields=fields)
    report = judge(summed, detection)
    if pseudonymise:
        report = pseudonymised(report)
    if as_json:
        click.echo(render(report, "report.json"), nl=False)
    else:
        print_summary(report, Console())
    folder = out if out is not None or as_json else Path(f"{_stem(data, project)}-report")
    if folder is not None:
        _write(report, folder, is_quiet=as_json)
    if fail_on_flags and any(row["flagged"] for row in report["annotators"]):
        context.exit(FLAGS_FOUND)


def judge(summed: Summed, detection: Mapping[str, Any]) -> dict[str, Any]:
    """Judge the sums and report."""
    with progress_bar("drawing") as progress:
        found = detect(summed.statistics, **detection, progress=progress)
    return report_of_data(summed.with_times(found), summed.data)


def _refuse_contradictions(data: tuple[str, ...], engine: str, master: str | None, project: int | None) -> None:
    """Options that do not go together, before anything is read."""
    if (engine == "postgres") != (project is not None):
        raise click.UsageError("--engine postgres and --project N go together: they name a project of the service")
    if (engine == "postgres") == bool(data):
        what = "--engine postgres takes no DATA" if data else "DATA is missing: give a file, a folder or a pattern"
        raise click.UsageError(what)
    if master is not None and engine != "spark":
        raise click.UsageError("--master is the address of a Spark cluster; use it with --engine spark")


def _sum(
    data: tuple[str, ...], *, engine: str, master: str | None, project: int | None, fields: Mapping[str, Any]
) -> Summed:
    """Sum the answers of files, or of a project of the service."""
    if project is None:
        return sum_sources(data, engine=engine, master=master, fields=fields)
    try:
        return sum_project(Settings.from_env(os.environ), project)
    except BackendError as error:
        raise BadInput(str(error)) from error


def _stem(data: tuple[str, ...], project: int | None) -> str:
    """The name the report's folder is made of."""
    return (
        f"project-{project}"
        if project is not None
        else Path(name_of(data[:1])).stem.replace("*", "").strip(".") or "data"
    )


def print_summary(report: Mapping[str, Any], console: Console) -> None:
    """Print the audit, the first rows of the table, and what the flags promise; all texts literally."""
    data, annotators = report["data"], report["annotators"]
    n_flagged = sum(row["flagged"] for row in annotators)
    counts = f"{data['answers']:,} answers, {data['annotators']:,} annotators, {data['items']:,} items"
    console.print(Text(f"{counts}: {n_flagged} flagged"))
    for sentence in (*report["audit"]["reasons"], *report["audit"]["remedies"]):
        console.print(Text(f"- {sentence}"))
    console.print(_table(annotators[: max(MOST_ROWS, n_flagged)]))
    if len(annotators) > max(MOST_ROWS, n_flagged):
        console.print(Text(f"and {len(annotators) - max(MOST_ROWS, n_flagged):,} more in the report"))
    console.print(Text(f"{report['guarantee']['kind']}: {report['guarantee']['sentence']}"))


def _table(rows: list[dict[str, Any]]) -> Table:
    """Lay out the annotators, worst first."""
    headings = ("annotator", "answers", "l/r/tie", "lean (95 %)", "draws", "finding")
    table = Table(*headings, box=None, pad_edge=False, padding=(0, 1))
    table.columns[0].min_width = 9
    for column in table.columns[1:]:
        column.no_wrap = True
    for column in table.columns[1:-1]:
        column.justify = "right"
    table.columns[0].overflow = "ellipsis"
    for row in rows:
        clicks = f"{row['left']}/{row['right']}/{row['ties']}"
        lean = f"{_number(row['bias'])} ({_number(row['bias_low'])} to {_number(row['bias_high'])})"
        share = f"{100 * row['draw_share']:.0f} %"
        table.add_row(
            Text(printable(str(row["annotator"]))), str(row["comparisons"]), clicks, lean, share, row["verdict"]
        )
    return table


def _number(value: float | None) -> str:
    """Write a lean with its sign, a dash where there is none."""
    return "–" if value is None else f"{value:+.2f}"


def _write(report: Mapping[str, Any], folder: Path, *, is_quiet: bool) -> None:
    """Write the report's files and say where they are."""
    for path in write_report(report, folder):
        if not is_quiet:
            click.echo(str(path))
