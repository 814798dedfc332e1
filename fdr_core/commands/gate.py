"""`evenhand gate`: pass or fail a judge in a build, by its log."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from fdr_core import Comparisons
from fdr_core.commands._options import Asked, detection_options, format_options, lean_options
from fdr_core.commands._summary import say_left_out
from fdr_core.judges.gate import check, gate_lean
from fdr_core.judges.gate import gate as decide
from fdr_core.judges.gate_report import EXIT_CODES, badge, junit, markdown, outcome, plan
from fdr_core.terminal import exits_2_on_bad_input, json_option, printable, say_json, with_parent

_file = click.Path(path_type=Path, dir_okay=False)


@click.command("gate")
@click.argument("log", required=False, type=click.Path(path_type=Path))
@click.option("--judge", "judges", multiple=True, help="Judge to decide about; repeat for more [every judge].")
@click.option("--max-lean", type=float, default=0.1, show_default=True, help="Largest lean tolerated.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Largest chance of a wrong fail or pass.")
@click.option("--plan", "is_plan", is_flag=True, help="Without LOG: how many pairs settle the question.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Earlier log: hold the change since then against the limit instead.",
)
@click.option("--anytime", is_flag=True, help="For a log that grows: the answer holds however often you look.")
@click.option("--markdown", "markdown_path", type=_file, help="Append the table to this file.")
@click.option("--junit", "junit_path", type=_file, help="Write JUnit XML to this file.")
@click.option("--badge", "badge_path", type=_file, help="Write an SVG badge to this file.")
@json_option
@detection_options("sides")
@format_options
@lean_options
@click.pass_context
@exits_2_on_bad_input
def gate(
    context: click.Context,
    log: Path | None,
    judges: tuple[str, ...],
    max_lean: float,
    alpha: float,
    is_plan: bool,
    baseline: Path | None,
    anytime: bool,
    markdown_path: Path | None,
    junit_path: Path | None,
    badge_path: Path | None,
    as_json: bool,
    asked: Asked,
    detection: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """
    Hold the lean of the judges in LOG against a limit: towards a side, or with --lean towards something else.

    Prints a Markdown table. Exit code: 0 if every judge passes, 1 if one fails, 3 if one is undecided (the table says
    how many more comparisons are needed), 2 for bad input. With --plan and no LOG: how many pairs to ask beforehand.

    \b
    Examples:
      evenhand gate judge.jsonl --judge gpt-x --max-lean 0.1
      evenhand gate --plan --max-lean 0.05
    """
    if is_plan:
        check(max_lean, alpha)
        click.echo(plan(max_lean=max_lean, alpha=alpha, n_judges=max(len(judges), 1)), nl=False)
        return
    if log is None:
        raise click.UsageError("LOG is missing: name a judge's log, or ask with --plan how long it should be")
    paths = {path: with_parent(path) for path in (markdown_path, junit_path, badge_path) if path is not None}
    comparisons = Comparisons.from_file(log, **reading)
    say_left_out(comparisons.excluded, comparisons)
    earlier = None if baseline is None else Comparisons.from_file(baseline, **reading)
    if asked.leans and (anytime or earlier is not None):
        raise click.UsageError("--lean does not go together with --anytime or --baseline; leave one of them out")
    if asked.leans:
        lists = replace(asked, least=0.0).lists(comparisons).values()
        options: dict[str, Any] = {"judges": judges or None, "max_lean": max_lean, "alpha": alpha / len(lists)}
        found = [one for own in lists for one in gate_lean(own, **options)]
    else:
        options = {"judges": judges or None, "max_lean": max_lean, "alpha": alpha, "baseline": earlier}
        found = decide(comparisons, anytime=anytime, **options, **detection)
    table = markdown(found, has_baseline=baseline is not None)
    written = {junit_path: junit(found), badge_path: badge(found)}
    for path in paths:
        with path.open("a" if path == markdown_path else "w", encoding="utf-8") as file:
            file.write(table if path == markdown_path else written[path])
    if as_json:
        say_json({"outcome": outcome(found), "judges": [asdict(one) for one in found]})
    else:
        click.echo("\n".join(printable(line) for line in table.splitlines()))
    context.exit(EXIT_CODES[outcome(found)])
