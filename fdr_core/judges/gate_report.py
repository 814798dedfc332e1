"""What the gate tells people and machines: a Markdown table for a pull request, JUnit XML for a build server."""

import re
from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from fdr_core.judges.gate import Gate

EXIT_CODES = {"pass": 0, "fail": 1, "undecided": 3}
_MARKS = {"pass": "✅ pass", "fail": "❌ fail", "undecided": "❔ undecided"}


def exit_code(gates: Sequence[Gate]) -> int:
    """0 if every judge passes, 1 if one fails, 3 if one is undecided and none fails."""
    decisions = {one.decision for one in gates}
    return next(EXIT_CODES[decision] for decision in ("fail", "undecided", "pass") if decision in decisions)


def markdown(gates: Sequence[Gate], *, has_baseline: bool = False) -> str:
    """A table, one row per judge."""
    what = "change of lean" if has_baseline else "lean"
    lines = [f"| judge | gate | {what} (bounds) | limit | comparisons | |", "|---|---|---|---|---|---|"]
    for one in gates:
        bounds = f"{one.lean:+.3f} ({one.low:+.3f} to {one.high:+.3f})"
        name = _cell(str(one.judge))
        lines.append(
            f"| {name} | {_MARKS[one.decision]} | {bounds} | ±{one.max_lean:g} | {one.answers:,} | {one.reason} |"
        )
    error = gates[0].alpha * len(gates)
    kind = "at any time of looking" if gates[0].anytime else "at this one look"
    of = gates[0].of
    lean = (
        "share of first-shown wins less second-shown"
        if of == "position"
        else f"of pairs that differ in {of}, how many more go to the side with more of it than quality and side explain"
    )
    lines += ["", f"Lean: {lean}. Wrong fails, and wrong passes: at most {error:g}, {kind}."]
    return "\n".join(lines) + "\n"


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


def _plain(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
