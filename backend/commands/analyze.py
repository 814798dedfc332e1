"""`evenhand analyze`: judge a file of answers and write the report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backend.commands._options import data_options, detection_options
from backend.offline import exits_2_on_bad_input, load_comparisons, progress_bar
from backend.report import pseudonymised, render, report_of, write_report
from fdr_core import detect

MOST_ROWS = 15
FLAGS_FOUND = 1


@click.command("analyze")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the report [FILE's name-report]."
)
@click.option("--json", "as_json", is_flag=True, help="Print report.json; write files only with --out.")
@click.option("--pseudonymise", is_flag=True, help="Number the annotators instead of naming them.")
@click.option("--fail-on-flags", is_flag=True, help="Exit with 1 if anybody is flagged.")
@detection_options("q", "method", "path", "cut", "copies", "draws", "seed", "sides", "min_bias", "aggregate")
@data_options
@click.pass_context
@exits_2_on_bad_input
def analyze(
    context: click.Context,
    file: Path,
    out: Path | None,
    as_json: bool,
    pseudonymise: bool,
    fail_on_flags: bool,
    fields: dict[str, Any],
    detection: dict[str, Any],
) -> None:
    """
    Find who clicks a side instead of judging in FILE.

    FILE is a CSV or Parquet file (annotator, left, right and choice or outcome; or crowd-kit's worker, left, right,
    label), or a Label Studio export (JSON or JSON-MIN). Exit code: 0 done, 1 flags found with --fail-on-flags, 2 bad
    input.
    """
    report = analyse_file(file, fields=fields, detection=detection)
    if pseudonymise:
        report = pseudonymised(report)
    if as_json:
        click.echo(render(report, "report.json"), nl=False)
    else:
        print_summary(report, Console())
    folder = out if out is not None or as_json else Path(f"{file.stem}-report")
    if folder is not None:
        _write(report, folder, is_quiet=as_json)
    if fail_on_flags and any(row["flagged"] for row in report["annotators"]):
        context.exit(FLAGS_FOUND)


def analyse_file(file: Path, *, fields: Mapping[str, Any], detection: Mapping[str, Any]) -> dict[str, Any]:
    """Read, judge, and report."""
    comparisons = load_comparisons(file, fields=fields)
    with progress_bar("drawing") as progress:
        found = detect(comparisons, **detection, progress=progress)
    return report_of(found, comparisons, source=file)


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
        table.add_row(Text(str(row["annotator"])), str(row["comparisons"]), clicks, lean, share, row["verdict"])
    return table


def _number(value: float | None) -> str:
    """Write a lean with its sign, a dash where there is none."""
    return "–" if value is None else f"{value:+.2f}"


def _write(report: Mapping[str, Any], folder: Path, *, is_quiet: bool) -> None:
    """Write the report's files and say where they are."""
    for path in write_report(report, folder):
        if not is_quiet:
            click.echo(str(path))
