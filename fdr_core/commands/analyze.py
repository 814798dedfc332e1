"""`evenhand analyze`: judge answers, of a file or of an archive, and write the report."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fdr_core import detect
from fdr_core.commands._archives import ENGINES, Summed, name_of, sum_sources
from fdr_core.commands._formats import format_options
from fdr_core.commands._leans import Asked, lean_options
from fdr_core.commands._options import detection_options
from fdr_core.commands._progress import progress_bar
from fdr_core.commands._summary import say_left_out, summary, terminal_width
from fdr_core.inputs.formats import POOLED, POOLED_NOTE
from fdr_core.report import pseudonymised, render, report_of_data, write_report
from fdr_core.terminal import exits_2_on_bad_input, with_parent

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
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True, help="What sums the answers.")
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
    """
    if not data:
        raise click.UsageError("DATA is missing: give a file, a folder or a pattern")
    if master is not None and engine != "spark":
        raise click.UsageError("--master is the address of a Spark cluster; use it with --engine spark")
    summed = sum_sources(data, engine=engine, master=master, reading=reading)
    if summed.statistics.annotators.tolist() == [POOLED]:
        click.echo(POOLED_NOTE, err=True)
    say_left_out(summed.data.get("excluded") or {})
    report = judge(summed, detection, asked, title=title)
    if pseudonymise:
        report = pseudonymised(report)
    if as_json:
        click.echo(render(report, "report.json"), nl=False)
    else:
        click.echo("\n".join(summary(report, terminal_width())))
    folder = out if out is not None or as_json else Path(f"{_stem(data)}-report")
    if folder is not None:
        _write(report, folder, is_quiet=as_json)
    if fail_on_flags and any(row["flagged"] for row in report["annotators"]):
        context.exit(FLAGS_FOUND)


def judge(
    summed: Summed, detection: Mapping[str, Any], asked: Asked | None = None, *, title: str | None = None
) -> dict[str, Any]:
    """Judge the sums and report."""
    other = asked.report(summed.comparisons, q=detection["q"]) if asked and asked.leans else {}
    with progress_bar("drawing") as progress:
        found = detect(summed.comparisons or summed.statistics, **detection, progress=progress, clock=time.monotonic)
    today = time.time() // 86_400 * 86_400
    return report_of_data(summed.with_times(found), summed.data, summed.statistics, title=title, made_at=today, **other)


def _stem(data: tuple[str, ...]) -> str:
    """The name the report's folder is made of."""
    return Path(name_of(data[:1])).stem.replace("*", "").strip(".-") or "data"


def _write(report: Mapping[str, Any], folder: Path, *, is_quiet: bool) -> None:
    """Write the report's files, and say which one to open."""
    written = write_report(report, with_parent(folder))
    if not is_quiet:
        click.echo(f"Written: {', '.join(path.name for path in written[1:])}")
        click.echo(f"Open {written[0]}")
