"""How figures and findings read, on pages and in reports: calm words, exact numbers, a dash where nothing is known."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, TypeGuard

from fdr_core.findings import (
    ALWAYS_LEFT,
    ALWAYS_RIGHT,
    LEANS_LEFT,
    LEANS_RIGHT,
    NONE_SEEN,
    NOT_ASSESSABLE,
    PARTS,
    SKIPS,
    SMALL,
    SUSPICIOUS,
    TOO_FEW,
)

NOTHING = "–"
MINUS = "−"
#: What a run says of everybody where the owner alone can tell whether anybody may be judged.
ASK_SIDES = f"{NOT_ASSESSABLE}: how were sides assigned?"
#: Every finding with a short name for style sheets and charts: always, lean, calm or wait.
KINDS: Mapping[str, str] = {
    ALWAYS_LEFT: "always",
    ALWAYS_RIGHT: "always",
    LEANS_LEFT: "lean",
    LEANS_RIGHT: "lean",
    **{f"{lean}{part}": "lean" for lean in (LEANS_LEFT, LEANS_RIGHT) for part in PARTS[1:]},
    SKIPS: "wait",
    SUSPICIOUS: "wait",
    SMALL: "calm",
    NONE_SEEN: "calm",
    TOO_FEW: "wait",
    NOT_ASSESSABLE: "wait",
    ASK_SIDES: "wait",
}
#: What a reviewer decided about somebody, as a sentence says it.
DECIDED: Mapping[str, str] = {"confirm": "confirmed", "dismiss": "dismissed", "watch": "watched", "open": "open"}
METHODS: Mapping[str, str] = {"exact": "exact test of each annotator", "lbi": "knockoff LBI"}
CONSTRUCTIONS: Mapping[str, str] = {
    "flip": "Sides count as random",
    "paper": "Judged with the sides as they stood",
    "none": "Cannot be judged yet",
}
LEFT_OUT: Mapping[str, str] = {
    "skip": "skipped",
    "skipped": "skipped",
    "empty": "without an answer",
    "draft": "drafts",
    "prediction": "taken over from a shown prediction",
    "unreadable": "unreadable",
    "ground_truth": "ground truth",
    "other controls": "answers to other controls only",
}
#: What a message about Label Studio ends with: the failure and the call that met it.
_CALL = re.compile(r"(?: \((\w*(?:Error|Timeout))\))?(?: \(((?:GET|POST|PUT|PATCH|DELETE) [^\s()]+)\))?$")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def finding_words(finding: Any) -> str:
    """The words people see for a finding; one that is not known is "not assessable"."""
    return str(finding) if finding in KINDS else NOT_ASSESSABLE


def flag_words(flag: Mapping[str, Any]) -> str:
    """What a lasting flag says: the finding, or that the annotator is no longer on the latest list."""
    is_listed = (flag.get("evidence") or {}).get("flagged", True)
    return finding_words(flag.get("finding")) if is_listed else "lasting flag, not on the latest list"


def list_words(rows: Iterable[Mapping[str, Any]], kind: str | None, q: Any) -> str:
    """What a list says and promises: how many are on it, what was decided about them, and how wrong such lists are.

    A rate bounds the mean over many lists; of this one it says nothing.
    """
    rows = list(rows)
    flagged = [row for row in rows if row["flagged"]]
    if not flagged:
        return f"Nobody of {count(len(rows))} is flagged. That clears nobody."
    return f"{decided_words(flagged, len(rows))} {_promise(str(kind), q)}".rstrip()


def decided_words(flagged: Iterable[Mapping[str, Any]], total: int | None = None) -> str:
    """How many are flagged, and what was decided about them so far."""
    decided = Counter(row.get("decision") or "open" for row in flagged)
    told = f"{count(sum(decided.values()))} {'' if total is None else f'of {count(total)} '}flagged"
    each = [f"{count(decided[choice])} {words}" for choice, words in DECIDED.items() if decided[choice]]
    return f"{told}." if set(decided) <= {"open"} else f"{told}: {', '.join(each)}."


def _promise(kind: str, q: Any) -> str:
    if not is_number(q) or not kind.startswith("FDR, "):
        return ""
    wrong = f"on average at most {percent(q)} wrong"
    if kind.startswith("FDR, proven"):
        return f"Lists made this way are {wrong}{kind.removeprefix('FDR, proven')}."
    return f"Lists made this way were {wrong} in simulations."


def finding_kind(finding: Any) -> str:
    """A short name of a finding for style sheets: calm, lean, always or wait."""
    return KINDS[finding_words(finding)]


def method_words(decided_by: Any) -> str:
    """Which method decided who is flagged."""
    return METHODS.get(str(decided_by), NOTHING)


def guarantee_parts(guarantee: str | None) -> tuple[str, str]:
    """The technical kind and the sentence for people, of a guarantee as it is stored."""
    kind, _, sentence = (guarantee or "").partition(": ")
    return kind, sentence


def construction_words(construction: Any) -> str:
    """What the audit decided."""
    return CONSTRUCTIONS.get(str(construction), "Not audited yet")


def left_out_words(reason: Any) -> str:
    """Why answers were left out."""
    return LEFT_OUT.get(str(reason), str(reason))


def number(value: Any, digits: int = 2) -> str:
    """A number with fixed digits and a real minus sign."""
    if not is_number(value):
        return NOTHING
    text = f"{value:,.{digits}f}"
    return text.replace("-", MINUS) if float(text.replace(",", "")) != 0 else text.replace("-", "")


def signed(value: Any, digits: int = 2) -> str:
    """A number with its sign, except for zero."""
    text = number(value, digits)
    return f"+{text}" if is_number(value) and value > 0 and text.strip("0.,") else text


def count(value: Any) -> str:
    """A whole number with thousands set apart."""
    return f"{round(value):,}".replace("-", MINUS) if is_number(value) else NOTHING


def percent(value: Any, digits: int = 0) -> str:
    """A share as percentage."""
    return f"{number(100 * value, digits)} %" if is_number(value) else NOTHING


def p_value(value: Any) -> str:
    """A p-value with as many digits as mean something."""
    if not is_number(value):
        return NOTHING
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def e_value(value: Any) -> str:
    """An e-value, large ones as a power of ten."""
    if not is_number(value):
        return NOTHING
    if value < 1000:
        return f"{value:.2f}" if value < 10 else f"{value:.0f}"
    exponent = math.floor(math.log10(value))
    return f"{value / 10**exponent:.1f} × 10{str(exponent).translate(_SUPERSCRIPT)}"


def when(seconds: Any) -> str:
    """A moment as date and time in UTC."""
    moment = _moment(seconds)
    return moment.strftime("%Y-%m-%d %H:%M UTC") if moment else NOTHING


def day(seconds: Any) -> str:
    """A moment's date in UTC."""
    moment = _moment(seconds)
    return f"{moment.day} {moment.strftime('%B %Y')}" if moment else NOTHING


def machine_time(seconds: Any) -> str:
    """A moment as the datetime attribute wants it."""
    moment = _moment(seconds)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment else ""


def duration(seconds: Any) -> str:
    """A span of time in the largest unit that fits."""
    if not is_number(seconds):
        return NOTHING
    span = abs(seconds)
    if span < 10:
        return f"{span:.1f} s"
    for limit, unit, name in ((100, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if span < limit:
            return f"{span / unit:.0f} {name}"
    return f"{span / 86_400:.0f} days"


def work(seconds: Any) -> str:
    """A cost in hours, in minutes below one."""
    if not is_number(seconds):
        return NOTHING
    return f"{math.ceil(seconds / 60)} min" if seconds < 3600 else f"{number(seconds / 3600, 1)} h"


def ago(seconds: Any, now: float) -> str:
    """How long ago a moment was."""
    if not is_number(seconds):
        return "never"
    return "just now" if now - seconds < 10 else f"{duration(now - seconds)} ago"


def side(value: Any) -> str:
    """Which side a lean points to."""
    return NOTHING if not is_number(value) else "left" if value > 0 else "right" if value < 0 else "neither side"


def shorten(text: Any, most: int = 80) -> str:
    """The beginning of a long text."""
    whole = str(text)
    return whole if len(whole) <= most else whole[: most - 1].rstrip() + "…"


def plural(amount: Any, one: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count(amount)} {one if amount == 1 else many or one + 's'}"


def sentence(text: Any) -> str:
    """A text with a capital at its beginning, unless that is an address or a name of ours; nothing else changed."""
    whole = str(text or "")
    first = whole.partition(" ")[0].rstrip(",.:;")
    return whole[:1].upper() + whole[1:] if first.replace("-", "").replace("'", "").isalpha() else whole


def full_stop(text: str) -> str:
    """A text that ends as a sentence does."""
    return text if not text or text[-1] in ".?!…" else f"{text}."


def says_what_was_found(audit: Mapping[str, Any]) -> bool:
    """Whether the reasons of an audit begin with what was found, so that it need not be said twice."""
    found = str(audit.get("found") or "").lower()
    return any(str(reason).lower().startswith(found) for reason in audit.get("reasons") or ())


def lean_x(value: float | None, width: float = 120.0) -> float:
    """Where a lean in [-1, 1] stands in a drawing of this width: a lean to the left (positive) on the left."""
    half = width / 2
    return round(half - (half - 4) * max(-1.0, min(1.0, value or 0.0)), 1)


def even_words(basis: Any) -> str:
    """What a lean of 0 is: where no coin decided the sides, leans are relative to the crowd."""
    return "as the others" if str(basis).startswith("relative") else "even-handed"


def says_lean(row: Mapping[str, Any]) -> bool:
    """Whether an annotator's lean may be shown: where nothing can be said, a number would look like a finding."""
    return not finding_words(row.get("finding")).startswith(NOT_ASSESSABLE)


def lean_words(value: Any, digits: int = 2) -> str:
    """A lean with its side as a word instead of a sign."""
    size = number(abs(value), digits) if is_number(value) else NOTHING
    return f"{side(value)} {size}" if size.strip("0.,–") else size


def _number_or_none(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def lean_interval(row: Mapping[str, Any]) -> str:
    """The interval of a lean, smaller end first; both ends name their side where it spans both."""
    bias, low, high = (_number_or_none(row.get(key)) for key in ("bias", "bias_low", "bias_high"))
    if bias is None or low is None or high is None:
        return ""
    if low >= 0 or high <= 0:
        near, far = sorted((abs(low), abs(high)))
        return f"{number(near)} to {number(far)}"
    ends = (low, high) if bias >= 0 else (high, low)
    return " to ".join(lean_words(end) for end in ends)


def change_words(row: Mapping[str, Any]) -> str:
    """How somebody's lean has changed."""
    told = f"{lean_words(row['before'])} until {day(row['since'])}, {lean_words(row['after'])} from then on"
    return f"{told} (a change of {signed(row['change'])}, 95 % {signed(row['low'])} to {signed(row['high'])})"


def few_coins(audit: Mapping[str, Any] | None) -> int | None:
    """How many coins decided the sides for everybody, if so few that it belongs beside every flag."""
    figures = (audit or {}).get("figures") or {}
    return figures["coins"] if figures.get("few_coins") else None


def cause_of(message: str) -> tuple[str, str]:
    """What went wrong, without the call that met it, and that call: for several projects the cause is the same."""
    found = _CALL.search(message)
    call = ", ".join(filter(None, found.groups())) if found else ""
    return (message[: found.start()] if found else message), call


def one_per_cause(problems: Iterable[Any]) -> list[dict[str, Any]]:
    """Problems with the same message and remedy as one, with the projects they concern."""
    causes: dict[tuple[str, str], dict[str, Any]] = {}
    for problem in (SimpleNamespace(**row) if isinstance(row, Mapping) else row for row in problems):
        message, call = cause_of(problem.message)
        fresh = {name: getattr(problem, name, None) for name in ("code", "remedy", "first_at")}
        fresh |= {"message": message, "call": call, "count": 0, "projects": []}
        cause = causes.setdefault((message, problem.remedy), fresh)
        cause["count"] += problem.count
        cause["first_at"] = min(cause["first_at"], problem.first_at)
        cause["projects"] += [problem.project_id] if problem.project_id is not None else []
    return list(causes.values())


FILTERS: Mapping[str, Callable[..., Any]] = {
    "ago": ago,
    "change_words": change_words,
    "construction_words": construction_words,
    "count": count,
    "day": day,
    "decided_words": decided_words,
    "duration": duration,
    "e_value": e_value,
    "even_words": even_words,
    "few_coins": few_coins,
    "finding_kind": finding_kind,
    "finding_words": finding_words,
    "full_stop": full_stop,
    "lean_interval": lean_interval,
    "lean_words": lean_words,
    "lean_x": lean_x,
    "list_words": list_words,
    "left_out_words": left_out_words,
    "machine_time": machine_time,
    "method_words": method_words,
    "number": number,
    "one_per_cause": one_per_cause,
    "p_value": p_value,
    "percent": percent,
    "plural": plural,
    "says_lean": says_lean,
    "says_what_was_found": says_what_was_found,
    "sentence": sentence,
    "shorten": shorten,
    "side": side,
    "signed": signed,
    "when": when,
    "work": work,
}


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _moment(seconds: Any) -> datetime | None:
    """A moment in UTC; None for what no calendar holds."""
    if not is_number(seconds) or not -6e10 < seconds < 2.5e11:
        return None
    return datetime.fromtimestamp(seconds, UTC)
