"""`evenhand gate`: pass or fail a judge in a build, by its log."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fdr_core import Comparisons
from fdr_core.commands._formats import format_options
from fdr_core.commands._leans import Asked, lean_options
from fdr_core.commands._summary import say_left_out
from fdr_core.judges.gate import gate as decide
from fdr_core.judges.gate import gate_lean
from fdr_core.judges.gate_report import exit_code, junit, markdown
from fdr_core.terminal import exits_2_on_bad_input, printable


@click.command("gate")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--judge", "judges", multiple=True, help="Judge to decide about; repeat for more [every judge].")
@click.option("--max-lean", type=float, default=0.1, show_default=True, help="Largest lean tolerated.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Largest chance of a wrong fail or pass.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Earlier log: hold the change since then against the limit instead.",
)
@click.option("--anytime", is_flag=True, help="For a log that grows: the answer holds however often you look.")
@click.option("--markdown", "markdown_path", type=click.Path(path_type=Path), help="Append the table to this file.")
@click.option("--junit", "junit_path", type=click.Path(path_type=Path), help="Write JUnit XML to this file.")
@format_options
@lean_options
@click.pass_context
@exits_2_on_bad_input
def gate(
    context: click.Context,
    log: Path,
    judges: tuple[str, ...],
    max_lean: float,
    alpha: float,
    baseline: Path | None,
    anytime: bool,
    markdown_path: Path | None,
    junit_path: Path | None,
    asked: Asked,
    reading: dict[str, Any],
) -> None:
    """
    Hold the lean of the judges in LOG against a limit: towards a side, or with --lean towards something else.

    Prints a Markdown table. Exit code: 0 if every judge passes, 1 if one fails, 3 if one is undecided (the table says
    how many more comparisons are needed), 2 for bad input.
    """
    comparisons = Comparisons.from_file(log, **reading)
    say_left_out(comparisons.excluded)
    earlier = None if baseline is None else Comparisons.from_file(baseline, **reading)
    if asked.leans and (anytime or earlier is not None):
        raise click.UsageError("--lean does not go together with --anytime or --baseline; leave one of them out")
    if asked.leans:
        lists = replace(asked, least=0.0).lists(comparisons).values()
        options: dict[str, Any] = {"judges": judges or None, "max_lean": max_lean, "alpha": alpha / len(lists)}
        found = [one for own in lists for one in gate_lean(own, **options)]
    else:
        found = decide(
            comparisons, judges=judges or None, max_lean=max_lean, alpha=alpha, baseline=earlier, anytime=anytime
        )
    table = markdown(found, has_baseline=baseline is not None)
    click.echo("\n".join(printable(line) for line in table.splitlines()))
    if markdown_path is not None:
        with markdown_path.open("a", encoding="utf-8") as file:
            file.write(table)
    if junit_path is not None:
        junit_path.write_text(junit(found), encoding="utf-8")
    context.exit(exit_code(found))
