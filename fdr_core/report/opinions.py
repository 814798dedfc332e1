"""What follows from which of the two methods decides: the words for evidence, for flags, and for how a list is made."""

from collections.abc import Callable, Mapping
from typing import Any

from fdr_core.paper.knockoff_lbi import KnockoffLBI
from fdr_core.report.words import NOTHING, count, is_number, p_value, plural

#: Evidence by the largest p-value of the person's own test; whoever else is judged changes nothing.
STRENGTHS: tuple[tuple[float, str], ...] = ((0.001, "strong"), (0.01, "moderate"), (0.05, "weak"))
#: What the words for evidence mean.
STRENGTH_WORDS = (
    "From the test of this annotator alone: strong where its p-value is at most 0.001, moderate up to 0.01, weak up to "
    "0.05, none above. The list also asks how many were tested (adjusted p). Click the word for the numbers."
)
HOLDS_ZERO = "Flagged although the interval holds 0: knockoff LBI makes the list, and it does not use the interval."
EXACT_TESTS = (
    "For somebody who follows the items, the sides on which the chosen items stood are coin flips, so the p-value "
    "needs no model of judging; where no coin decided the sides, answers are drawn anew from such a model instead."
)
LBI = "biases compete with copies of themselves along a regularisation path"
PAPER = "Xu, Xiong, Cao and Yao, ICML 2016"
COMBINED: Mapping[Any, str] = {
    "majority": "the list holds those whom more than half of the draws select",
    "evalues": "the list combines the draws by e-values",
}
SCORES = (
    "Item scores are fitted together with the biases of the flagged annotators. The same answers and the parameters "
    "below give the same figures."
)


def strength(row: Mapping[str, Any]) -> str:
    """How strong the evidence of the person's own test is: strong, moderate, weak or none."""
    own = row.get("p_value")
    if not is_number(own):
        return NOTHING
    return next((word for limit, word in STRENGTHS if own <= limit), "none")


def strength_from(row: Mapping[str, Any]) -> str:
    """The numbers that a strength comes from, in words."""
    return f"own p-value {p_value(row.get('p_value'))}, adjusted for all {p_value(row.get('q_value'))}"


def draws_made(summary: Mapping[str, Any] | None) -> int | None:
    """How many draws of knockoff LBI were made, which is fewer than asked for where time ran out."""
    return (summary or {}).get("draws_done")


def differs_words(row: Mapping[str, Any], decided_by: Any) -> str:
    """Which of the two lists an annotator is on, said of the one that does not decide; "" where they agree."""
    if not row.get("difference"):
        return ""
    is_exact = bool(row.get("exact_list"))
    if decided_by == "lbi":
        return "on the exact list only" if is_exact else "not on the exact list"
    return "not on the LBI list" if is_exact else "on the LBI list only"


def holds_zero(row: Mapping[str, Any]) -> bool:
    """Whether somebody is flagged although the interval of the bias holds 0."""
    low, high = row.get("bias_low"), row.get("bias_high")
    return bool(row.get("flagged")) and is_number(low) and is_number(high) and low <= 0 <= high


def holds_zero_words(row: Mapping[str, Any]) -> str:
    """Why such a flag is no mistake; "" for everybody else."""
    return HOLDS_ZERO if holds_zero(row) else ""


def lasting_words(decided_by: Any) -> str:
    """What lasting flags rest on, where that is not the method that makes the list."""
    if decided_by != "lbi":
        return ""
    return "Lasting flags, and with them alert cards, rest on the exact tests, although knockoff LBI makes the list."


def lists_words(method: Mapping[str, Any], audit: Mapping[str, Any] | None) -> str:
    """What either method lists, and on how many annotators they differ; "" where nothing was judged."""
    if not method.get("decided_by"):
        return ""
    n_exact, n_lbi = method.get("exact_list") or 0, method.get("lbi_list")
    can_test = _could_test(audit)
    exact = f"The exact tests list {plural(n_exact, 'annotator')}" if can_test else "The exact tests could judge nobody"
    if not method.get("draws_done") or n_lbi is None:
        return f"{exact}; knockoff LBI {_why_no_lbi(method)}."
    made, asked = count(method["draws_done"]), plural(method.get("draws_asked"), "draw")
    told = f"{exact}; knockoff LBI, after {made} of {asked}, lists {count(n_lbi)}."
    differing = method.get("differences")
    if not can_test:
        return told
    if differing:
        return f"{told} They differ on {plural(differing, 'annotator')}."
    return f"{told} {'The two lists are the same' if n_exact else 'They agree'}."


def made_words(report: Mapping[str, Any]) -> str:
    """How the list of a report was made, by what decided then."""
    method, audit = report["method"], report["audit"]
    if audit["construction"] == "none" and not _could_test(audit):
        told = "Nobody was judged, so there is no list; the audit above says why."
    elif method["decided_by"] == "lbi":
        told = f"{_lbi_decides(method, report['parameters'])} {_exact_beside(audit)}"
    else:
        told = _exact_decides(method)
    return f"{told} {SCORES}"


def _exact_decides(method: Mapping[str, Any]) -> str:
    told = (
        f"Every annotator with enough answers is tested. {EXACT_TESTS} The list follows from all p-values together at "
        "the target error rate."
    )
    if not method["draws_done"]:
        return f"{told} Knockoff LBI ({PAPER}) {_why_no_lbi(method)}."
    return f"{told} Knockoff LBI ({PAPER}) runs beside it: in {plural(method['draws_done'], 'draw')}, {LBI}."


def _lbi_decides(method: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    if not method["draws_done"]:
        return f"Knockoff LBI ({PAPER}) decides; it {_why_no_lbi(method)}, so there is no list."
    combined = COMBINED[_aggregate(parameters)]
    return f"The list is that of knockoff LBI ({PAPER}): in {plural(method['draws_done'], 'draw')}, {LBI}; {combined}."


def _aggregate(parameters: Mapping[str, Any]) -> str:
    """How draws were combined."""
    lbi = KnockoffLBI.parse(str(parameters.get("lbi", "")))
    return lbi.aggregate if lbi else "majority"


def _exact_beside(audit: Mapping[str, Any]) -> str:
    if not _could_test(audit):
        return "The exact tests could judge nobody here."
    return f"Exact tests of each annotator run beside it. {EXACT_TESTS}"


def _could_test(audit: Mapping[str, Any] | None) -> bool:
    return (audit or {}).get("how") != "none"


def _why_no_lbi(method: Mapping[str, Any]) -> str:
    return "could judge nobody" if method.get("draws_asked") else "was left out"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "differs_words": differs_words,
    "draws_made": draws_made,
    "holds_zero": holds_zero,
    "holds_zero_words": holds_zero_words,
    "lasting_words": lasting_words,
    "strength": strength,
    "strength_from": strength_from,
}
