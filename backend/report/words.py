"""How figures and findings read, on pages and in reports: calm words, exact numbers, a dash where nothing is known."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

NOTHING = "–"
MINUS = "−"
VERDICTS: Mapping[str, str] = {
    "good": "no lean found",
    "ugly": "leans to one side",
    "bad": "always one side",
    "not assessable": "not assessable yet",
}
CONSTRUCTIONS: Mapping[str, str] = {
    "flip": "Coin flips are valid",
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
}
# Below this many coins, shared by everybody, an unlucky set of sides can touch many annotators at once.
FEW_COINS = 100
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def verdict_words(verdict: Any) -> str:
    """The words people see for a verdict of the library; words already in place stay."""
    text = str(verdict or "")
    if text in VERDICTS.values():
        return text
    return VERDICTS.get(text, VERDICTS["not assessable"])


def verdict_kind(verdict: Any) -> str:
    """A short name of a verdict for style sheets: calm, lean, always or wait."""
    kinds = dict(zip(VERDICTS.values(), ("calm", "lean", "always", "wait"), strict=True))
    return kinds[verdict_words(verdict)]


def construction_words(construction: Any) -> str:
    """What the audit decided."""
    return CONSTRUCTIONS.get(str(construction), "Not audited yet")


def left_out_words(reason: Any) -> str:
    """Why answers were left out."""
    return LEFT_OUT.get(str(reason), str(reason))


def number(value: Any, digits: int = 2) -> str:
    """A number with fixed digits and a real minus sign."""
    if not _is_number(value):
        return NOTHING
    text = f"{value:,.{digits}f}"
    return text.replace("-", MINUS) if float(text.replace(",", "")) != 0 else text.replace("-", "")


def signed(value: Any, digits: int = 2) -> str:
    """A number that always shows its sign, except for zero."""
    text = number(value, digits)
    return f"+{text}" if _is_number(value) and value > 0 and text.strip("0.,") else text


def count(value: Any) -> str:
    """A whole number with thousands set apart."""
    return f"{round(value):,}".replace("-", MINUS) if _is_number(value) else NOTHING


def percent(value: Any, digits: int = 0) -> str:
    """A share as percentage."""
    return f"{number(100 * value, digits)} %" if _is_number(value) else NOTHING


def p_value(value: Any) -> str:
    """A p-value with as many digits as mean something."""
    if not _is_number(value):
        return NOTHING
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def e_value(value: Any) -> str:
    """An e-value, large ones as a power of ten."""
    if not _is_number(value):
        return NOTHING
    if value < 1000:
        return f"{value:.2f}" if value < 10 else f"{value:.0f}"
    exponent = math.floor(math.log10(value))
    return f"{value / 10**exponent:.1f} × 10{str(exponent).translate(_SUPERSCRIPT)}"


def when(seconds: Any) -> str:
    """A moment as date and time in UTC."""
    moment = _moment(seconds)
    return moment.strftime("%Y-%m-%d %H:%M UTC") if moment else NOTHING


def machine_time(seconds: Any) -> str:
    """A moment as the datetime attribute wants it."""
    moment = _moment(seconds)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment else ""


def duration(seconds: Any) -> str:
    """A span of time in the largest unit that fits."""
    if not _is_number(seconds):
        return NOTHING
    span = abs(seconds)
    if span < 10:
        return f"{span:.1f} s"
    for limit, unit, name in ((100, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if span < limit:
            return f"{span / unit:.0f} {name}"
    return f"{span / 86_400:.0f} days"


def ago(seconds: Any, now: float) -> str:
    """How long a moment lies back."""
    if not _is_number(seconds):
        return "never"
    return "just now" if now - seconds < 10 else f"{duration(now - seconds)} ago"


def side(value: Any) -> str:
    """Which side a lean points to."""
    return NOTHING if not _is_number(value) else "left" if value > 0 else "right" if value < 0 else "neither side"


def shorten(text: Any, most: int = 80) -> str:
    """The beginning of a long text."""
    whole = str(text)
    return whole if len(whole) <= most else whole[: most - 1].rstrip() + "…"


def plural(amount: Any, one: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count(amount)} {one if amount == 1 else many or one + 's'}"


def sentence(text: Any) -> str:
    """A text with a capital at its beginning and nothing else changed."""
    whole = str(text or "")
    return whole[:1].upper() + whole[1:]


def few_coins(audit: Mapping[str, Any] | None) -> int | None:
    """How many coins decided the sides for everybody, if so few that it belongs beside every flag."""
    figures = (audit or {}).get("figures") or {}
    coins = figures.get("coins")
    return coins if figures.get("shared_coins") and isinstance(coins, int) and coins < FEW_COINS else None


FILTERS: Mapping[str, Callable[..., Any]] = {
    "ago": ago,
    "construction_words": construction_words,
    "count": count,
    "duration": duration,
    "e_value": e_value,
    "few_coins": few_coins,
    "left_out_words": left_out_words,
    "machine_time": machine_time,
    "number": number,
    "p_value": p_value,
    "percent": percent,
    "plural": plural,
    "sentence": sentence,
    "shorten": shorten,
    "side": side,
    "signed": signed,
    "verdict_kind": verdict_kind,
    "verdict_words": verdict_words,
    "when": when,
}


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _moment(seconds: Any) -> datetime | None:
    """A moment in UTC; None for what no calendar holds."""
    if not _is_number(seconds) or not -6e10 < seconds < 2.5e11:
        return None
    return datetime.fromtimestamp(seconds, UTC)
