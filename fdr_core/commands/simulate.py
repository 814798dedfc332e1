"""`evenhand simulate`: write a crowd with known truth."""

from pathlib import Path

import click
import numpy as np
import pandas as pd

from fdr_core.simulate import SCENARIOS, Simulated, small_team
from fdr_core.terminal import exits_2_on_bad_input, with_parent

_TEAM = "team"


@click.command("simulate")
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--scenario",
    type=click.Choice([_TEAM, *SCENARIOS]),
    default=_TEAM,
    show_default=True,
    help="Which crowd to simulate.",
)
@click.option(
    "--annotators", type=click.IntRange(min=1), default=30, show_default=True, help="How many people (team only)."
)
@click.option("--biased", type=click.IntRange(min=0), default=5, show_default=True, help="How many lean (team only).")
@click.option("--answers", type=click.IntRange(min=1), default=60, show_default=True, help="Answers each (team only).")
@click.option("--items", type=click.IntRange(min=2), default=20, show_default=True, help="How many items (team only).")
@click.option(
    "--bias",
    type=click.FloatRange(0, 1),
    default=0.4,
    show_default=True,
    help="How often those who lean click their side (team only).",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed gives the same crowd."
)
@exits_2_on_bad_input
def simulate(
    out: Path, scenario: str, annotators: int, biased: int, answers: int, items: int, bias: float, seed: int
) -> None:
    """Write answers of a simulated crowd to OUT (.csv or .parquet), and who leans to a .truth.csv beside it.

    \b
    Examples:
      evenhand simulate crowd.csv
      evenhand simulate prompts.csv --scenario unique-pairs --seed 7
    """
    with_parent(out)
    rng = np.random.default_rng(seed)
    if scenario == _TEAM:
        crowd = small_team(annotators, biased, answers, rng=rng, bias=bias, n_items=items)
    else:
        crowd = SCENARIOS[scenario](rng)
    truth = out.with_suffix(".truth.csv")
    table = answers_table(crowd)
    if out.suffix.lower() in (".parquet", ".pq"):
        table.to_parquet(out, index=False)
    else:
        table.to_csv(out, index=False)
    truth_table(crowd).to_csv(truth, index=False)
    click.echo(
        f"{len(table):,} answers in {out}; who leans is in {truth}: {int(crowd.is_biased.sum())} of {len(crowd.side)}"
    )


def answers_table(crowd: Simulated) -> pd.DataFrame:
    """Give the answers with choices in words where they are choices."""
    table = crowd.comparisons.to_frame()
    if np.isin(crowd.comparisons.outcome, (-1, 0, 1)).all():
        words = table["outcome"].map({1.0: "left", -1.0: "right", 0.0: "tie"})
        table = table.assign(outcome=words).rename(columns={"outcome": "choice"})
    return table


def truth_table(crowd: Simulated) -> pd.DataFrame:
    """Give who leans, and to which side."""
    side = pd.Series(crowd.side).map({1: "left", -1: "right", 0: ""})
    return pd.DataFrame({"annotator": crowd.comparisons.annotators, "leans": crowd.is_biased, "side": side})
