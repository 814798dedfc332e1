"""What the gate tells people and machines: a Markdown table, JUnit XML, a badge; and beforehand, how much it needs."""

import math
import re
from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from fdr_core.judges.gate import MOST_NEEDED, Gate, units_needed

EXIT_CODES = {"pass": 0, "fail": 1, "undecided": 3}
_MARKS = {"pass": "✅ pass", "fail": "❌ fail", "undecided": "❔ undecided"}
_COLOURS = {"pass": "#2e7d32", "fail": "#c62828", "undecided": "#9e6a03"}
#: Leans that a plan is made for, and shares of pairs that a judge answers otherwise in the other order.
PLANNED_LEANS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
INCONSISTENT = (0.1, 0.3)


def outcome(gates: Sequence[Gate]) -> str:
    """Of a build: fail if one judge fails, else undecided if one is, else pass."""
    decisions = {one.decision for one in gates}
    return next(decision for decision in ("fail", "undecided", "pass") if decision in decisions)


def markdown(gates: Sequence[Gate], *, has_baseline: bool = False) -> str:
    """A table, one row per judge, and what the audit of the log says."""
    what = "change of lean" if has_baseline else "lean"
    lines = [f"| judge | gate | {what} (bounds) | limit | comparisons | |", "|---|---|---|---|---|---|"]
    for one in gates:
        bounds = f"{one.lean:+.3f} ({one.low:+.3f} to {one.high:+.3f})"
        row = (
            _cell(str(one.judge)),
            _MARKS[one.decision],
            bounds,
            f"±{one.max_lean:g}",
            f"{one.answers:,}",
            _cell(one.reason),
        )
        lines.append(f"| {' | '.join(row)} |")
    error = gates[0].alpha * len(gates)
    kind = "at any time of looking" if gates[0].anytime else "at this one look"
    of = gates[0].of
    lean = (
        "share of first-shown wins less second-shown"
        if of == "position"
        else f"of pairs that differ in {of}, how many more go to the side with more of it than quality and side explain"
    )
    lines += ["", f"Lean: {lean}. Wrong fails, and wrong passes: at most {error:g}, {kind}."]
    lines += ["", *(f"- {_cell(note)}" for note in gates[0].notes)] if gates[0].notes else []
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Without line ends and the control characters that XML cannot hold."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _cell(text: str) -> str:
    """Somebody's name as text of one cell: nothing in it ends a line, a cell, or is obeyed."""
    return re.sub(r"([\\`*_\[\]<>|~&#!])", r"\\\1", _plain(text))


def junit(gates: Sequence[Gate]) -> str:
    """One test case per judge; an undecided one is skipped, with what it needs."""
    count = {decision: sum(one.decision == decision for one in gates) for decision in EXIT_CODES}
    head = f'tests="{len(gates)}" failures="{count["fail"]}" skipped="{count["undecided"]}" errors="0"'
    cases = "".join(_case(one) for one in gates)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="evenhand gate" {head}>\n{cases}</testsuite>\n'


def _case(one: Gate) -> str:
    name = quoteattr(_plain(f"{one.judge} leans at most {one.max_lean:g}"))
    words = quoteattr(_plain(f"{one.reason}: lean {one.lean:+.3f} ({one.low:+.3f} to {one.high:+.3f})"))
    inner = {"pass": "", "fail": f"<failure message={words}/>", "undecided": f"<skipped message={words}/>"}
    return f'  <testcase classname="evenhand.gate" name={name}>{inner[one.decision]}</testcase>\n'


def badge(gates: Sequence[Gate]) -> str:
    """An SVG: the lean of the one judge, or how many of several pass."""
    found = outcome(gates)
    n_passed = sum(one.decision == "pass" for one in gates)
    words = f"{found} {gates[0].lean:+.2f}" if len(gates) == 1 else f"{found}, {n_passed} of {len(gates)} pass"
    left, right = 92, 14 + 7 * len(words)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="position lean: {words}"><rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{_COLOURS[found]}"/>'
        '<g fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2:g}" y="14">position lean</text>'
        f'<text x="{left + right / 2:g}" y="14">{words}</text></g></svg>\n'
    )


def plan(*, max_lean: float, alpha: float, n_judges: int = 1) -> str:
    """A table of how many pairs bring a decision in four of five builds, by the lean that there is."""
    shares = [f"both orders, {100 * share:.0f} % inconsistent" for share in INCONSISTENT]
    lines = [f"| true lean | {' | '.join(['one order', *shares])} |", "|---|---|" + "---|" * len(shares)]
    for lean in PLANNED_LEANS:
        spreads = [math.sqrt(1 - lean**2), *(math.sqrt(max(share, lean) - lean**2) for share in INCONSISTENT)]
        needed = [units_needed(lean, spread, max_lean=max_lean, alpha=alpha / n_judges) for spread in spreads]
        lines.append(f"| {lean:g} | {' | '.join(map(_needed, needed))} |")
    told = f"Pairs per judge until a limit of {max_lean:g} is decided in four of five builds (alpha {alpha:g}"
    of = f", shared by {n_judges} judges" if n_judges > 1 else ""
    return "\n".join([*lines, "", f"{told}{of}). In both orders each pair is asked twice."]) + "\n"


def _needed(units: float) -> str:
    return f"more than {MOST_NEEDED:,}" if units > MOST_NEEDED else f"{math.ceil(units):,}"
