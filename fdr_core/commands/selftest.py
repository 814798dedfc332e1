"""`evenhand selftest`: realised error rates of every method on the user's own design."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from fdr_core import Comparisons, ConfigurationError, FdrCoreError, KnockoffLBI, detect
from fdr_core.baselines import BASELINES
from fdr_core.commands._options import Asked, detection_options, format_options, lean_options
from fdr_core.commands._summary import table
from fdr_core.progress import progress_bar
from fdr_core.simulate import Simulated, on_design
from fdr_core.terminal import exits_2_on_bad_input

Method = Callable[[Comparisons], list[Any]]


@dataclass(frozen=True)
class Score:
    """Realised rates of one method over the simulated data sets; `problem` says why it could not run."""

    method: str
    runs: int
    false_share: float
    false_share_se: float
    power: float
    flagged: float
    problem: str | None = None


def methods(*, lbi: KnockoffLBI | None, **options: Any) -> Mapping[str, Method]:
    """List what is compared: Evenhand as it would decide, LBI by both constructions, and what people do by hand."""

    def by_lbi(construction: str) -> Method:
        method = replace(lbi or KnockoffLBI(), construction=construction)
        return lambda c: detect(c, decide_by="lbi", lbi=method, **options).flagged

    ours: dict[str, Method] = {"Evenhand, auto": lambda c: detect(c, lbi=None, **options).flagged}
    ours |= {f"Evenhand, {construction}": by_lbi(construction) for construction in ("flip", "paper")}
    return ours | {name: _by_hand(name, options["q"]) for name in BASELINES}


def _by_hand(name: str, q: float) -> Method:
    """Bind one baseline."""
    return lambda c: BASELINES[name](c, q).flagged


def score_methods(
    design: Comparisons,
    compared: Mapping[str, Method],
    *,
    runs: int,
    seed: int,
    n_biased: int | None = None,
    bias: float = 0.5,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Score]:
    """Simulate `runs` data sets on the design and score every method on the same ones."""
    if runs < 1:
        raise ConfigurationError(f"runs is {runs}; expected at least 1")
    rates: dict[str, list[tuple[float, float, int]]] = {name: [] for name in compared}
    problems: dict[str, str] = {}
    for run in range(runs):
        simulated = on_design(design, rng=np.random.default_rng([seed, run]), n_biased=n_biased, bias=bias)
        for position, (name, method) in enumerate(compared.items()):
            if name not in problems:
                _score_one(name, method, simulated, rates[name], problems)
            progress(run * len(compared) + position + 1, runs * len(compared))
    return [_summary(name, rates[name], problems.get(name)) for name in compared]


def _score_one(
    name: str,
    method: Method,
    simulated: Simulated,
    rates: list[tuple[float, float, int]],
    problems: dict[str, str],
) -> None:
    """Run one method on one data set; a method that the design does not allow is left out from then on."""
    try:
        flagged = method(simulated.comparisons)
    except FdrCoreError as error:
        problems[name] = str(error)
        return
    rates.append((simulated.false_discovery_proportion(flagged), simulated.power(flagged), len(flagged)))


def _summary(name: str, rates: list[tuple[float, float, int]], problem: str | None) -> Score:
    """Average over the data sets."""
    if not rates:
        return Score(name, 0, 0.0, 0.0, 0.0, 0.0, problem)
    false_share, power, flagged = np.array(rates, dtype=np.float64).T
    error = float(false_share.std(ddof=1) / np.sqrt(len(rates))) if len(rates) > 1 else 0.0
    return Score(
        name, len(rates), float(false_share.mean()), error, float(power.mean()), float(flagged.mean()), problem
    )


COLUMNS = ("method", "false flags", "± s.e.", "found", "flags per run")


@click.command("selftest")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--runs", type=click.IntRange(min=1), default=20, show_default=True, help="Simulated data sets.")
@click.option("--biased", type=click.IntRange(min=0), help="How many lean [a tenth].")
@click.option(
    "--bias", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="How often they click a side."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the data sets.")
@click.option("--placebo", is_flag=True, help="Test features without meaning instead, where --leans are to be asked.")
@detection_options("q", "min_bias", "sides", "lbi")
@format_options
@lean_options
@exits_2_on_bad_input
def selftest(
    file: Path,
    runs: int,
    biased: int | None,
    bias: float,
    seed: int,
    as_json: bool,
    placebo: bool,
    detection: dict[str, Any],
    asked: Asked,
    reading: dict[str, Any],
) -> None:
    """
    Simulate on the design of FILE (same annotators, items, sizes, sides) and print how every method does.

    False flags: the share of flags that are false, averaged over the data sets (to be compared with q). Found: of
    those who lean, the share flagged.

    --placebo with --leans and --gold: RUNS features drawn by chance and RUNS that go with quality stand in the place of
    one more lean; of their tests 5 % should have p < .05, and next to nobody should be listed.

    \b
    Examples:
      evenhand selftest answers.csv --runs 50
      evenhand selftest answers.csv --placebo --leans length --gold gold
    """
    design = Comparisons.from_file(file, **reading)
    if placebo:
        click.echo(_placebos(asked, design, runs=runs, seed=seed, q=detection["q"]))
        return
    with progress_bar() as progress:
        scores = score_methods(
            design,
            methods(**detection),
            runs=runs,
            seed=seed,
            n_biased=biased,
            bias=bias,
            progress=partial(progress, "simulate"),
        )
    if as_json:
        click.echo(json.dumps([asdict(score) for score in scores], indent=1))
        return
    click.echo(f"{design!r}, {runs} simulated data sets, q = {detection['q']:g}")
    click.echo("\n".join(table(COLUMNS, [_cells(score) for score in scores], words=COLUMNS[:1])))
    for score in scores:
        if score.problem:
            click.echo(f"{score.method}: {score.problem}")


def _placebos(asked: Asked, design: Comparisons, *, runs: int, seed: int, q: float) -> str:
    """What features without meaning give on these answers."""
    if not asked.leans:
        raise click.UsageError("--placebo needs the leans that are to be asked about, such as --leans length,format")
    found = next(
        (one for one in asked.lists(design, q=q, placebos=runs, seed=seed).values() if one.how != "others"), None
    )
    if found is None:
        raise click.UsageError("agreement is no feature of items; name one that is, such as --leans length")
    return "\n".join([*found.reasons, f"{found.placebos}."] if found.placebos else found.reasons)


def _cells(score: Score) -> dict[str, str]:
    """What the table says of a method."""
    figures = [f"{figure:.3f}" for figure in (score.false_share, score.false_share_se, score.power)]
    known = [*figures, f"{score.flagged:.1f}"] if score.runs else ["–", "–", "–", "not possible"]
    return dict(zip(COLUMNS, [score.method, *known], strict=True))
