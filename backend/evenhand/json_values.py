"""JSON as it arrives from outside: decoded safely, checked, and refused with what was expected."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from evenhand.errors import PayloadError, TooLargeError

Json = dict[str, Any]
MAX_ID = 2**63 - 1
#: Values in one body: a decoded value takes up to a hundred times the bytes of its text.
MOST_VALUES = 500_000
#: Objects in one list of a body.
MOST_ENTRIES = 10_000
_BAD_TEXT = re.compile("[\x00\ud800-\udfff]")


def parse_json(raw: bytes) -> Any:
    """Decode a request body; anything that is not sound JSON raises PayloadError, too many values TooLargeError."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MOST_VALUES:
        raise TooLargeError(f"the body holds more than {MOST_VALUES:,} values; send fewer at a time")
    try:
        value = json.loads(raw, parse_constant=_no_constant)
    except RecursionError:
        raise PayloadError("the body is nested too deeply; send at most a few dozen lists within lists") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise PayloadError(f"the body is not JSON: {error}") from None
    # PostgreSQL refuses NUL in text and neither database can encode lone surrogates; both arrive only escaped.
    return clean(value) if b"\\u0000" in raw or b"\\ud" in raw.lower() else value


def clean(value: Any) -> Any:
    """Replace characters no database can hold, everywhere in a decoded JSON value."""
    if isinstance(value, str):
        return _BAD_TEXT.sub("\ufffd", value)
    if isinstance(value, list):
        return [clean(part) for part in value]
    if isinstance(value, dict):
        return {clean(key): clean(part) for key, part in value.items()}
    return value


def parse_time(value: Any) -> float | None:
    """Seconds since the epoch of an ISO time; None if it is not one."""
    if not isinstance(value, str) or not 10 <= len(value) <= 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def an_object(value: Any, what: str) -> Json:
    """A JSON object or a PayloadError."""
    if not isinstance(value, dict):
        raise PayloadError(f"{what} is {seen(value)}; expected an object")
    return value


def objects(body: Mapping[str, Any], *keys: str) -> list[Json]:
    """The objects under the first key present; a single object counts as a list of one."""
    for key in keys:
        value = body.get(key)
        if value is None:
            continue
        values = few(value, key) if isinstance(value, list) else [value]
        for index, part in enumerate(values):
            an_object(part, f"{key}[{index}]")
        return values
    return []


def few(values: list[Any], what: str) -> list[Any]:
    """A list that is not too long; raises TooLargeError."""
    if len(values) > MOST_ENTRIES:
        raise TooLargeError(f"{what} has {len(values):,} entries; at most {MOST_ENTRIES:,} are taken in one call")
    return values


def ids(values: Iterable[Json], what: str) -> list[int]:
    """The ids of a list of objects."""
    return [an_id(value.get("id"), f"{what}[{index}].id") for index, value in enumerate(values)]


def an_id(value: Any, what: str) -> int:
    """A positive id that fits the database."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_ID:
        raise PayloadError(f"{what} is {seen(value)}; expected a positive whole number")
    return value


def seen(value: Any) -> str:
    """What was found, short enough for a message and without content that could be secret."""
    if value is None:
        return "missing"
    if isinstance(value, str | int | float | bool):
        return repr(value)[:60]
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, list | dict) else type(value).__name__


def _no_constant(name: str) -> Any:
    """NaN and Infinity are not JSON."""
    raise ValueError(f"{name} is not a JSON number")
