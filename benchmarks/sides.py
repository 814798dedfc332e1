"""What the audit calls designs whose making is known, and what slips through.

python -m benchmarks.sides [--runs 200]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from fdr_core import Comparisons, detect
from fdr_core.answers import Answers
from harness.sides import Q, audited, has_flag, opposite_batches, own_coins

SEED = 5000
#: Annotators and answers each.
TEAMS = ((12, 100), (30, 60), (100, 20), (300, 30))


def on_the_list(answers: Answers) -> bool:
    """Whether anybody is on the list that people see."""
    made = Comparisons.from_arrays(answers.annotator, answers.left, answers.right, answers.outcome)
    return bool(detect(made, q=Q, lbi=None).flagged)


#: Ways to flag somebody, by name.
TESTS: Mapping[str, Callable[[Answers], bool]] = {
    "list": on_the_list,
    "residuals": partial(has_flag, test="residuals"),
    "clicks": partial(has_flag, test="clicks"),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    for m, each in TEAMS:
        size = {"m": m, "each": each}
        for name, heads, leaning in (
            ("fair coins", 0.5, 0.0),
            ("fair coins, 40 % lean left", 0.5, 0.4),
            ("two batches .8 and .2", opposite_batches(m, each), 0.0),
            ("better item left in 55 %", 0.55, 0.0),
        ):
            made = [
                own_coins(np.random.default_rng([SEED, k]), heads=heads, leaning=leaning, **size) for k in range(runs)
            ]
            endings = [audited(answers).how for answers in made]
            passed = [answers for answers, how in zip(made, endings, strict=True) if how == "own coins"]
            line = f"{m} x {each}, {name}: {dict(Counter(endings))}"
            if not leaning and passed:
                rates = {test: np.mean([flags(answers) for answers in passed]) for test, flags in TESTS.items()}
                line += "; any flag where coins are trusted: " + ", ".join(f"{t} {r:.2f}" for t, r in rates.items())
            print(line, flush=True)


if __name__ == "__main__":
    main()
