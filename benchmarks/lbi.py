"""How long knockoff LBI takes beside the exact decision: 21 draws, and what a budget leaves of them; in one run.

    python -m benchmarks.lbi                     simulated crowds up to 10,000 annotators
    python -m benchmarks.lbi --data FOLDER       real sets there as well, and which of the paper's annotators are found

Seconds by the clock and of the processor, so that a busy machine shows.
"""

import argparse
import os
import pathlib
import platform
import time
from typing import Any

import numpy as np
import pandas as pd

from fdr_core import Comparisons
from fdr_core.answer_table import AnswerTable
from fdr_core.audit import audit
from fdr_core.paper.knockoff_lbi import KnockoffLBI
from fdr_core.paper.run import LbiResult
from harness.crowds import shaped

#: (annotators, items, answers), and the seconds aimed at.
SIZES = {(100, 100, 10_000): 0.5, (1_000, 200, 100_000): 3.5, (10_000, 200, 1_000_000): 30.0}
#: Real sets: construction asked for, seconds aimed at, the paper's list if it has one.
REAL = {
    "ukpconvarg1": ("auto", 20.0, None),
    "worldcollege": ("auto", 5.0, "worldcollege/paper_table8.csv"),
    "iqa_ref1": ("paper", 5.0, "paper_tables/table7_iqa_ref1.csv"),
}
BUDGET = 10.0


def opinion(comparisons: Comparisons, lbi: KnockoffLBI) -> tuple[LbiResult, AnswerTable, float, float]:
    """Run LBI; return it with its seconds by the clock and of the processor."""
    table = AnswerTable.of(comparisons)
    design = audit(table.audit_input(), q=0.1, method=lbi.construction)
    begun, busy = time.perf_counter(), time.process_time()
    result = lbi.run(
        answers=table.answers.with_coin(design.coin),
        sums=table.sums,
        construction=design.construction,
        judged=np.flatnonzero(design.assessable_by_lbi),
        clock=time.perf_counter,
    )
    return result, table, time.perf_counter() - begun, time.process_time() - busy


def line(
    name: str,
    comparisons: Comparisons,
    construction: str,
    aim: float,
    papers: set[Any] | None = None,
    budget: float | None = None,
) -> None:
    lbi = KnockoffLBI(construction=construction, seconds=budget)
    result, table, seconds, busy = opinion(comparisons, lbi)
    found = set(table.annotators[result.chosen])
    listed = f"{len(papers & found)} of the paper's {len(papers)}" if papers else ""
    print(
        f"{name:26}{result.construction:>7}{len(result.judged):>8}{result.draws_done:>4}/{result.draws_asked:<3}"
        f"{seconds:>8.2f}{busy:>8.2f}{aim:>7.1f}{len(found):>9}{result.n_slack_near_zero:>9}"
        f"{'yes' if result.converged else 'NO':>6}  {listed}",
        flush=True,
    )


def read(folder: pathlib.Path) -> Comparisons:
    frame = pd.read_csv(folder / "comparisons.csv")
    return Comparisons.from_frame(frame[[c for c in ("annotator", "left", "right", "choice", "coin") if c in frame]])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path)
    folder = parser.parse_args().data
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}, "
        f"numpy {np.__version__}"
    )
    print(
        f"{'':26}{'copies':>7}{'judged':>8}{'draws':>8}{'clock':>8}{'cpu':>8}{'aim':>7}"
        f"{'selected':>9}{'s near 0':>9}{'conv.':>6}"
    )
    for (m, n, N), aim in SIZES.items():
        crowd = shaped(m, n, N, rng=np.random.default_rng(1)).comparisons
        line(f"{m:,} x {N:,}", crowd, "auto", aim)
    line(f"the last within {BUDGET:.0f} s", crowd, "auto", BUDGET, budget=BUDGET)
    for name, (method, aim, papers) in REAL.items() if folder else ():
        named = set(pd.read_csv(folder / papers)["annotator"]) if papers else None
        line(name, read(folder / name), method, aim, named)


if __name__ == "__main__":
    main()
