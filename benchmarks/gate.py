"""How often the gate is wrong: simulated builds of judges whose lean is known.

python -m benchmarks.gate [--quick]
"""

import argparse
from collections import Counter
from collections.abc import Callable

import numpy as np

from fdr_core.judges.gate import Units, decide, decide_anytime
from fdr_core.types import Floats

BUILDS = 1000
MAX_LEAN, ALPHA = 0.1, 0.05
LEANS = (0.0, 0.05, 0.1, 0.15, 0.3)
SIZES = (50, 200, 1000)
LOOK_EVERY = 20


def binary(lean: float, n: int, rng: np.random.Generator) -> Floats:
    """First or second, no ties."""
    return np.where(rng.random(n) < (1 + lean) / 2, 1.0, -1.0)


def with_ties(lean: float, n: int, rng: np.random.Generator) -> Floats:
    """Three in ten answers are ties."""
    first = (0.7 + lean) / 2
    draw = rng.random(n)
    return np.where(draw < first, 1.0, np.where(draw < 0.7, -1.0, 0.0))


def graded(lean: float, n: int, rng: np.random.Generator) -> Floats:
    """Five grades of confidence."""
    return np.asarray(binary(lean * 4 / 3, n, rng) * rng.choice([0.5, 1.0], size=n))


def both_orders(lean: float, n: int, rng: np.random.Generator) -> Floats:
    """Both orders of a pair as one observation: mostly consistent, the rest moved to one side."""
    moved = rng.random(n) < max(0.3, abs(lean))
    share = 0.5 + lean / (2 * max(0.3, abs(lean)))
    return np.where(moved, np.where(rng.random(n) < share, 1.0, -1.0), 0.0)


JUDGES: dict[str, Callable[[float, int, np.random.Generator], Floats]] = {
    "first or second": binary,
    "with ties": with_ties,
    "graded": graded,
    "both orders": both_orders,
}


def fixed(values: Floats) -> str:
    """One look at the whole log."""
    return decide("judge", Units.of_values(values), max_lean=MAX_LEAN, alpha=ALPHA).decision


def growing(values: Floats) -> str:
    """A look after every twenty comparisons; the first decision counts."""
    for n in range(LOOK_EVERY, len(values) + 1, LOOK_EVERY):
        decision = decide_anytime("judge", Units.of_values(values[:n]), max_lean=MAX_LEAN, alpha=ALPHA).decision
        if decision != "undecided":
            return decision
    return "undecided"


def growing_by_fixed(values: Floats) -> str:
    """The same looks with the test for one look: what --anytime is for."""
    for n in range(LOOK_EVERY, len(values) + 1, LOOK_EVERY):
        decision = fixed(values[:n])
        if decision != "undecided":
            return decision
    return "undecided"


def table(title: str, rule: Callable[[Floats], str], *, builds: int, sizes: tuple[int, ...]) -> list[str]:
    """Shares of fail / pass / undecided per kind of judge, lean and size."""
    lines = [f"### {title}", "", "| judge | true lean | " + " | ".join(f"n = {n:,}" for n in sizes) + " |"]
    lines.append("|---|---|" + "---|" * len(sizes))
    for name, draw in JUDGES.items():
        for lean in LEANS:
            cells = []
            for n in sizes:
                rng = np.random.default_rng([n, round(1000 * lean), len(name)])
                count = Counter(rule(draw(lean, n, rng)) for _ in range(builds))
                fail, ok, open_ = (100 * count[key] / builds for key in ("fail", "pass", "undecided"))
                cells.append(f"{fail:.1f} / {ok:.1f} / {open_:.1f}")
            lines.append(f"| {name} | {lean:+.2f} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 builds instead of 1,000")
    builds = 100 if parser.parse_args().quick else BUILDS
    print(f"Fail / pass / undecided in %, {builds:,} builds each; limit {MAX_LEAN:g}, alpha {ALPHA:g}\n")
    print("\n".join(table("One look", fixed, builds=builds, sizes=SIZES)))
    print("\n".join(table("A log that grows, --anytime, a look every 20", growing, builds=builds // 4, sizes=(400,))))
    title = "The same looks without --anytime (not valid)"
    print("\n".join(table(title, growing_by_fixed, builds=builds // 4, sizes=(400,))))


if __name__ == "__main__":
    main()
