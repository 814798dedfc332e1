"""Leans beyond position, on judges whose texts and gold labels are known and on crowds whose truth is known.

python -m benchmarks.leans [--case NAME ...]

Real data is read from the folder that EVENHAND_DATA names. Data sets of simulated crowds have the numbers from 7000 on,
as many as each case says.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy.special import expit

from fdr_core import Comparisons, detect
from fdr_core.judges.both_orders import adjusted
from fdr_core.other_leans import Column, LeanList, OwnFamily, detect_leans
from fdr_core.other_leans.agreement import agreement
from fdr_core.types import Floats, Mask

FIRST = 7000
Q = 0.1
NAMES = ("length", "format", "newer", "own")


def leans_of(data: Comparisons, leans: list[str | Column | OwnFamily], **options: Any) -> dict[str, LeanList]:
    """The leans beyond position."""
    found = detect_leans(data, leans, q=Q, with_position=False, **options)
    return {name: one for name, one in found.items() if isinstance(one, LeanList)}


def by_annotator(found: LeanList) -> pd.DataFrame:
    """Rows by label."""
    return found.annotators.set_index("annotator")


def llmbar(name: str = "llmbar_features/both_orders.csv.gz") -> pd.DataFrame:
    """The judges of LLMBar."""
    return pd.read_csv(Path(os.environ.get("EVENHAND_DATA", "data")) / name)


def _some_pairs(table: pd.DataFrame, n: int, rng: Generator) -> pd.DataFrame:
    """N pairs of each judge, both orders."""
    pairs = table["pair"].unique()
    chosen = {judge: set(rng.permutation(pairs)[:n]) for judge in table["annotator"].unique()}
    return table[[pair in chosen[judge] for judge, pair in zip(table["annotator"], table["pair"], strict=True)]]


def case_length(draws: int = 20) -> None:
    """LLMBar, length with gold: how many of the full data's list fewer pairs find, and how many of them wrongly."""
    table = llmbar()
    full = by_annotator(
        leans_of(Comparisons.from_frame(table), ["length"], gold="gold", least=0.0, placebos=0)["length"]
    )
    leaning = full.index[adjusted(full["p_value"].to_numpy()) <= Q]
    print(f"full data: {len(leaning)} of {len(full)} lean (Benjamini-Hochberg), {full['flagged'].sum()} listed here")
    for n in (100, 200, 300):
        rows = []
        for draw in range(draws):
            part = Comparisons.from_frame(_some_pairs(table, n, np.random.default_rng([FIRST, draw])))
            row: list[float] = []
            for least in (0.0, 0.1):
                flagged = leans_of(part, ["length"], gold="gold", least=least, placebos=0)["length"]
                seen, true = by_annotator(flagged).loc[flagged.flagged, "coefficient"], full["coefficient"]
                true = true.loc[flagged.flagged]
                wrong = (np.sign(seen) != np.sign(true)) | (true.abs() < max(0.05, least))
                row += [len(set(flagged.flagged) & set(leaning)) / len(leaning), wrong.sum() / max(1, len(seen))]
                row.append(float((true.abs() < least).sum()))
            rows.append(row)
        a, wrong_a, _, b, wrong_b, below = np.mean(rows, axis=0)
        print(
            f"{n} pairs a judge: null 0 found {a:.3f}, wrong {wrong_a:.3f}; smallest lean .1 found {b:.3f}, "
            f"wrong {wrong_b:.3f}, below .1 {below:.2f}",
            flush=True,
        )


def case_placebo() -> None:
    """LLMBar, features without meaning, with gold."""
    table = llmbar()
    for n in (100, 200, 300, 419):
        part = Comparisons.from_frame(_some_pairs(table, n, np.random.default_rng([FIRST, 0])))
        found = leans_of(part, ["length"], gold="gold", placebos=40)["length"]
        print(f"{n} pairs a judge: {found.placebos}", flush=True)


def case_cost() -> None:
    """46 judges x 840 answers."""
    data = Comparisons.from_frame(llmbar())
    begun = time.process_time()
    leans_of(data, ["length"], gold="gold")
    print(f"with gold and placebos, {len(data):,} answers: {time.process_time() - begun:.2f} s of CPU", flush=True)


def crowd(m: int, each: int, rng: Generator, *, leaning: float = 0.0) -> tuple[Comparisons, Mask]:
    """
    People with slopes of their own, four features correlated .6 with each other and .6 with quality, gold per pair.

    Returns
    -------
    the answers, and (m, 4) who leans to what; ``leaning`` of each feature, by 1 in log odds at a typical difference.
    """
    n = 4 * each
    root = np.linalg.cholesky(np.full((5, 5), 0.6) + 0.4 * np.eye(5))
    drawn = rng.normal(size=(n, 5)) @ root.T
    gold, x = np.where(drawn[:, 0] > 0, 1.0, -1.0), drawn[:, 1:]
    pair = np.concatenate([rng.choice(n, each, replace=False) for _ in range(m)])
    who, way = np.repeat(np.arange(m), each), rng.choice([-1.0, 1.0], size=m * each)
    leans = rng.random((m, 4)) < leaning
    delta = np.where(leans, rng.choice([-1.0, 1.0], size=(m, 4)), 0.0)
    eta = np.exp(rng.normal(size=m) * 0.5)[who] * gold[pair] + (x[pair] * delta[who]).sum(axis=1)
    first = rng.random(len(eta)) < expit(eta + 0.3 * way * rng.normal(size=m)[who])
    table = pd.DataFrame({"annotator": who, "outcome": np.where(first, 1, -1) * way, "gold": gold[pair] * way})
    for side, places in (("left", way > 0), ("right", way < 0)):
        table[side] = 2 * pair + ~places
    for k, name in enumerate(NAMES):
        table[f"x_{name}"] = x[pair, k] * way
    return Comparisons.from_frame(table), leans


def _rates(found: dict[str, LeanList], leans: Mask) -> tuple[Floats, float, float]:
    """False shares of each list, of all pooled, and the share of the leaning found."""
    flagged = np.array([by_annotator(found[name]).loc[np.arange(len(leans)), "flagged"] for name in NAMES]).T
    wrong = flagged & ~leans
    each = wrong.sum(axis=0) / np.maximum(flagged.sum(axis=0), 1)
    return each, wrong.sum() / max(flagged.sum(), 1), (flagged & leans).sum() / max(leans.sum(), 1)


def case_rates(sets: int = 200) -> None:
    """Four correlated features: nobody leans, and 15 % do."""
    for m, leaning in ((30, 0.0), (100, 0.0), (30, 0.15), (100, 0.15)):
        for scope, least in (("each", 0.0), ("all", 0.0), ("each", 0.1), ("all", 0.1)):
            rows = []
            for k in range(sets):
                data, leans = crowd(m, 150, np.random.default_rng(FIRST + k), leaning=leaning)
                found = leans_of(
                    data, [Column(name) for name in NAMES], gold="gold", scope=scope, least=least, placebos=0
                )
                rows.append(_rates(found, leans))
            each, pooled, power = (np.array(column) for column in zip(*rows, strict=True))
            print(
                f"{m} annotators, {leaning:.0%} lean, {scope}, least {least}: each list {each.mean(axis=0).round(3)}, "
                f"pooled {pooled.mean():.3f} (SE {pooled.std() / np.sqrt(sets):.3f}), found {power.mean():.3f}",
                flush=True,
            )


def mixed_skills(rng: Generator) -> tuple[Comparisons, Mask, Mask]:
    """
    Thirty people, 200 answers each on 600 pairs: two click at random, one left and right in turn, six honest ones agree
    with the others by .25, and the rest are right in 85 %.

    Returns
    -------
    the answers, who follows nothing, who has little skill
    """
    m, each, n = 30, 200, 600
    pair = np.concatenate([rng.choice(n, each, replace=False) for _ in range(m)])
    who, way = np.repeat(np.arange(m), each), rng.choice([-1.0, 1.0], size=m * each)
    right = np.full(m, 0.7)
    right[:3], low = 0.0, np.arange(3, 9)
    for _ in range(50):  # until the agreement with the mean of the others is .25
        right[low] = 0.25 / ((right.sum() - right[low]) / (m - 1))
    choice = rng.choice([-1.0, 1.0], n)[pair] * np.where(rng.random(len(who)) < (1 + right[who]) / 2, 1.0, -1.0)
    choice[who == 2] = way[who == 2] * np.tile([1.0, -1.0], each // 2)
    left, other = 2 * pair + (way < 0), 2 * pair + (way > 0)
    code = np.arange(m)
    return Comparisons.from_arrays(who, left, other, choice * way), code < 3, np.isin(code, low)


def case_agreement(sets: int = 200) -> None:
    """Who follows nothing: random and alternating clickers beside honest people of little skill."""
    rows = []
    for k in range(sets):
        data, clicks, low = mixed_skills(np.random.default_rng(FIRST + k))
        table = agreement(data, q=Q).annotators.set_index("annotator").loc[np.arange(data.n_annotators)]
        flagged = table["flagged"].to_numpy(dtype=bool)
        rows.append(
            (
                flagged[clicks].mean(),
                (flagged & ~clicks).sum() / max(flagged.sum(), 1),
                table["effect"].to_numpy()[low].mean(),
                (table["p_value"].to_numpy()[low] < 0.05).mean(),
            )
        )
    found, false, seen, below = np.mean(rows, axis=0)
    error = np.std([row[1] for row in rows]) / np.sqrt(sets)
    print(
        f"found {found:.3f}, false {false:.3f} (SE {error:.3f}); honest of little skill: agreement {seen:.3f}, p < .05 "
        f"in {below:.3f}",
        flush=True,
    )


def leaning_in(part: str, rng: Generator) -> tuple[Comparisons, Mask]:
    """
    Forty people, 120 answers each, own coins; eight lean to a side of their own in a part of the answers.

    ``part``: "late" (by 2 on the logit scale), "close" (1.3), "plain" (.7 in all) or "nobody".
    """
    m, each, n = 40, 120, 60
    who, left = np.repeat(np.arange(m), each), rng.integers(n, size=m * each)
    right = (left + rng.integers(1, n, size=m * each)) % n
    score, order = rng.normal(0, 1.5, n), np.tile(np.arange(each), m)
    gap, side = score[left] - score[right], rng.choice([-1.0, 1.0], m)[who]
    strength = {
        "late": 2.0 * (order >= each / 2),
        "close": 1.3 * (np.abs(gap) < np.median(np.abs(gap))),
        "plain": np.full(m * each, 0.7),
        "nobody": np.zeros(m * each),
    }[part]
    first = rng.random(m * each) < expit(gap + strength * side * (who < 8))
    size = rng.integers(50, 800, (m * each, 2))
    table = {"annotator": who, "left": left, "right": right, "outcome": np.where(first, 1, -1), "time": 1e9 + order}
    data = Comparisons.from_frame(pd.DataFrame({**table, "chars_left": size[:, 0], "chars_right": size[:, 1]}))
    return data, (np.arange(m) < 8) & (part != "nobody")


def case_parts(sets: int = 60) -> None:
    """The exact decision with and without its parts: late, close and plain leaners, and nobody."""
    for part in ("late", "close", "plain", "nobody"):
        rows: dict[str, list[tuple[float, float]]] = {"whole": [], "all": []}
        for k in range(sets):
            data, leans = leaning_in(part, np.random.default_rng(FIRST + k))
            for parts, own in rows.items():
                listed = set(detect(data, q=Q, lbi=None, consensus="least squares", parts=parts).flagged)
                found = len(listed & set(np.flatnonzero(leans).tolist()))
                own.append((found / max(leans.sum(), 1), (len(listed) - found) / max(len(listed), 1)))
        for parts, own in rows.items():
            found, false = np.mean(own, axis=0)
            error = np.std([row[1] for row in own]) / np.sqrt(sets)
            print(f"{part}, {parts}: found {found:.3f}, false {false:.3f} (SE {error:.3f})", flush=True)


def case_family() -> None:
    """PRD, own family: with the three others as reference, slopes in the model; and without gold."""
    table = pd.read_csv(Path(os.environ.get("EVENHAND_DATA", "data")) / "prd_both_orders/comparisons.csv")
    family = OwnFamily(mapping={"bard": "google", "claude": "anthropic", "gpt35": "openai", "gpt4": "openai"})
    data = Comparisons.from_frame(table.assign(stratum=table["question"]))
    found = leans_of(data, [family])["own family"]
    print(f"without gold: {found.flagged} listed; {' '.join(found.reasons)}", flush=True)
    for judge in data.annotators:
        others = [other for other in data.annotators if other != judge]
        one = by_annotator(leans_of(data, [family], reference=others, placebos=0)["own family"]).loc[judge]
        print(f"{judge}, the others as gold: {one['finding']}, listed: {one['flagged']}", flush=True)


def case_without_gold() -> None:
    """LLMBar without gold: all judges, and eight at a time; nobody may be listed, nor placebos seem to work."""
    table = llmbar()
    judges = table["annotator"].unique()
    begun = time.process_time()
    found = leans_of(Comparisons.from_frame(table), ["length"])["length"]
    print(
        f"46 judges: {found.how}, {len(found.flagged)} listed, {time.process_time() - begun:.1f} s of CPU", flush=True
    )
    listed, below = [], []
    for k in range(20):
        some = np.random.default_rng(FIRST + k).permutation(judges)[:8]
        found = leans_of(Comparisons.from_frame(table[table["annotator"].isin(some)]), ["length"])["length"]
        listed.append(found.how == "crowd")
        if found.placebos:
            below.append((found.placebos.random, found.placebos.bound))
    print(f"eight judges, 20 draws: a list in {np.mean(listed):.0%}; placebos {np.mean(below, axis=0)}", flush=True)


CASES: dict[str, Callable[[], None]] = {
    name.removeprefix("case_"): case for name, case in globals().items() if name.startswith("case_")
}


def main() -> None:
    """Print the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    for name in parser.parse_args().case:
        print(f"{name}: {CASES[name].__doc__}", flush=True)
        CASES[name]()


if __name__ == "__main__":
    main()
