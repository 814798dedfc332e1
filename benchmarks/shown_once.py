"""Judges whose lean is known from both orders, shown one order each; leans and proofs on simulated crowds.

Part of `python -m benchmarks.decision`: cases "judges", "leans" and "proofs". Draws and data sets have numbers from
7000 on; what was tuned was tuned on reife_mtbench and crowds below 5000, never on llmbar_features, prd or these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.results.real_data import folder
from fdr_core import Comparisons, detect
from fdr_core.answer_table import AnswerTable
from fdr_core.baselines import glm_bh
from fdr_core.leans import ABSOLUTE, absolute_leans
from fdr_core.simulate import unique_pairs
from fdr_core.types import Floats
from harness.breakers import PROOFS, many_items, one_sided_crowd
from harness.scenarios import Q, Scenario, generator

FIRST = 7000
#: From so many coins on an interval should cover.
FEWEST_COINS = 3
#: A judge leans from the first of these on, and is even below the second.
LEANS, EVEN = 0.1, 0.05
#: Crowds whose clickers lean by one half.
CROWDS: dict[str, Callable[..., Any]] = {
    "unique pairs, one order for all": unique_pairs,
    **{f"18 of 30 lean left, {coins}": partial(one_sided_crowd, coins=coins) for coins in ("own", "shared", "unique")},
    "2,200 items": many_items,
}
CLICK = 0.5


@cache
def shown_twice(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Both orders of every pair, and the judges' leans over them."""
    file = folder() / name / "both_orders.csv.gz"
    frame = pd.read_csv(file if file.is_file() else folder() / name / "comparisons.csv")
    if "pair" not in frame:
        ends = np.sort(frame[["left", "right"]].to_numpy(dtype=str), axis=1)
        frame["pair"] = frame["question"].astype(str) + "|" + ends[:, 0] + "|" + ends[:, 1]
    frame["outcome"] = frame["choice"].map({"left": 1.0, "right": -1.0, "tie": 0.0})
    return frame, frame.groupby("annotator")["outcome"].mean()


def one_order(name: str, is_shared: bool, number: int) -> Comparisons:
    """One of the two orders by a coin of every (judge, pair), or of every pair for all judges."""
    frame, _ = shown_twice(name)
    coin = frame["pair" if is_shared else "coin"]
    code, _ = pd.factorize(coin)
    fallen = generator(number, int(is_shared)).random(code.max() + 1) < 0.5
    shown = (frame["left"] < frame["right"]).to_numpy() == fallen[code]
    drawn = frame.loc[shown, ["annotator", "left", "right", "outcome"]].assign(coin=coin[shown])
    return Comparisons.from_frame(drawn)


@dataclass(frozen=True)
class Seen:
    """Of one draw: the list, and how the leans came out; ``plain``: of the mean side per coin."""

    found: float
    share_even: float
    proven: float
    error: float
    covered: float
    width: float
    plain_width: float
    by_glm: float = np.nan


def seen(data: Comparisons, truth: Floats, *, with_glm: bool = False) -> Seen:
    """Decide, and compare with the truth, given in the order of the annotators."""
    result = detect(data, q=Q, lbi=None, consensus="least squares")
    by_label = dict(zip(data.annotators, truth, strict=True))
    size = np.abs([by_label[label] for label in result.flagged])
    rows = result.annotators.set_index("annotator").loc[list(data.annotators)]
    is_absolute = result.lean_basis == ABSOLUTE  # else the audit took the sides for placed
    many = np.array([len(np.unique(data.coin[data.annotator == j])) for j in range(len(truth))]) >= FEWEST_COINS
    inside = (rows["bias_low"].to_numpy() <= truth) & (truth <= rows["bias_high"].to_numpy())
    by_glm = [abs(by_label[label]) >= LEANS for label in glm_bh(data, Q).flagged] if with_glm else [np.nan]
    return Seen(
        float((size >= LEANS).sum()),
        float((size < EVEN).sum() / max(1, len(size))),
        float(len(result.exact.proven)),
        float((rows["bias"].to_numpy() - truth).mean()) if is_absolute else np.nan,
        float(inside[many].mean()) if is_absolute else np.nan,
        float((rows["bias_high"] - rows["bias_low"]).mean()),
        _plain_width(data),
        float(np.sum(by_glm)),
    )


def _plain_width(data: Comparisons) -> float:
    """Mean width of the same intervals around plain means of sides: as if every coin had items of its own."""
    answers = AnswerTable.of(data).answers
    alone = replace(answers, left=2 * answers.coin, right=2 * answers.coin + 1)
    n_items = 2 * (int(answers.coin.max()) + 1)
    plain = absolute_leans(alone, n_items, data.n_annotators, lambda: answers.coin.astype(np.uint64))
    return float((plain.high - plain.low).mean())


def _of_judges(name: str, is_shared: bool, with_glm: bool, number: int) -> Seen:
    data = one_order(name, is_shared, number)
    return seen(data, shown_twice(name)[1][list(data.annotators)].to_numpy(), with_glm=with_glm)


def _of_crowd(make: Callable[..., Any], number: int) -> Seen:
    truth = make(rng=generator(number))
    return seen(truth.comparisons, CLICK * truth.side)


def _row(name: str, draws: list[Seen], leaning: int | None) -> str:
    table = pd.DataFrame([vars(draw) for draw in draws])
    mean, n = table.mean(), table.count()
    se = (table.std() / n**0.5).to_dict()
    unbiased = "yes" if abs(mean["error"]) <= 2 * se["error"] else "NO"
    glm = "" if np.isnan(mean["by_glm"]) or leaning is None else f"{mean['by_glm']:.1f}"
    lists = "" if leaning is None else f"{mean['found']:.1f} of {leaning} (SE {se['found']:.1f})"
    cells = [
        name,
        f"{n['error']} of {len(draws)}",
        lists,
        glm,
        f"{mean['share_even']:.3f}",
        f"{mean['proven']:.1f}",
        f"{mean['error']:+.4f} ({se['error']:.4f})",
        unbiased,
        *(f"{mean[figure]:.3f}" for figure in ("covered", "width", "plain_width")),
    ]
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| set | draws with absolute leans | leaning found | GLM + BH | share even | proven | error of leans (SE) | "
    "within 2 SE | covered | width | plain |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def judges(pool: ProcessPoolExecutor, draws: int) -> Iterator[str]:
    """Real judges, one order drawn of the two."""
    yield HEAD
    for name in ("reife_mtbench", "llmbar_features"):
        if not (folder() / name / "both_orders.csv.gz").is_file():
            continue
        leaning = int((shown_twice(name)[1].abs() >= LEANS).sum())
        for is_shared in (False, True):
            work = partial(_of_judges, name, is_shared, not is_shared)
            found = list(pool.map(work, range(FIRST, FIRST + draws)))
            yield _row(f"{name}, {'one order for all' if is_shared else 'own coins'}", found, leaning)


def leans(pool: ProcessPoolExecutor, sets: int) -> Iterator[str]:
    """Simulated crowds whose clickers lean by one half."""
    yield HEAD
    for name, make in CROWDS.items():
        yield _row(name, list(pool.map(partial(_of_crowd, make), range(FIRST, FIRST + sets))), None)


def proofs(pool: ProcessPoolExecutor, sets: int) -> Iterator[str]:
    """Of lists with shared coins, what holds with a proof."""
    yield "| crowd | sets | measured list: FDR, power | proven part: FDR (SE), power | goal |\n|---|---|---|---|---|"
    for case in PROOFS:
        found = np.array(list(pool.map(partial(_lists, case), range(FIRST, FIRST + sets))))
        (fdp, power, proven_fdp, proven_power), se = found.mean(axis=0), found[:, 2].std(ddof=1) / np.sqrt(sets)
        goal = "" if case.floor is None else f"{case.floor:.2f}"
        powers = ("-", "-") if case.is_null else (f"{power:.3f}", f"{proven_power:.3f}")
        yield f"| {case.label} | {sets} | {fdp:.3f}, {powers[0]} | {proven_fdp:.3f} ({se:.3f}), {powers[1]} | {goal} |"


def _lists(case: Scenario, number: int) -> tuple[float, float, float, float]:
    truth = case.simulate(number)
    result = detect(truth.comparisons, q=Q, lbi=None, consensus="least squares")
    named = result.flagged, result.exact.proven
    rates = [truth.false_discovery_proportion(names) for names in named]
    power = [np.nan if case.is_null else truth.power(names) for names in named]
    return rates[0], power[0], rates[1], power[1]


#: Case names of `benchmarks.decision`, with the number of draws or data sets.
CASES: dict[str, tuple[Callable[[ProcessPoolExecutor, int], Iterator[str]], int]] = {
    "judges": (judges, 20),
    "leans": (leans, 100),
    "proofs": (proofs, 200),
}
