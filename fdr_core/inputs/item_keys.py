"""Short, stable names for items whose content is long or a URL, and for coins that tell the seed they came from."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fdr_core.types import Ints, Words

LONGEST_KEY = 80
_URL = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*://|data:|/data/)", re.IGNORECASE)
#: Line breaks, headings, list marks, emphasis, code and tables.
_MARKS = re.compile(r"\n|^#{1,6} |^\s*(?:[-*+]|\d+\.) |\*\*|__|`|\|", re.MULTILINE)
_HEAD = 40
_DIGEST = 16
_DRAWN = re.compile(r"drawn(?:-both)?:\d+:([0-9a-f]{12}):[0-9a-f]{16}")


def drawn_coin(seed: int, key: object, first: object, *, both_orders: bool = False) -> tuple[str, bool]:
    """
    Toss a coin whose name holds the seed, so that its side can be computed again wherever the name is known.

    Parameters
    ----------
    seed : int
        Decides all coins of a run.
    key : object
        Tells the coins of a seed apart.
    first : object
        The item that heads puts left (shows first).
    both_orders : bool
        Whether both orders are shown, the one drawn first.

    Returns
    -------
    str, bool
        The coin's name, and whether it fell heads.
    """
    kind = "drawn-both" if both_orders else "drawn"
    name = f"{kind}:{seed}:{item_hash(first)}:{_hash(repr((seed, key)))[:16]}"
    return name, _is_heads(name)


def told_by(coin: object) -> tuple[str, bool, bool] | None:
    """What a coin that names its seed tells: the first item's hash, whether heads, whether both orders are shown."""
    told = _DRAWN.fullmatch(coin) if isinstance(coin, str) else None
    return None if told is None else (told[1], _is_heads(told[0]), told[0].startswith("drawn-both"))


def item_hash(item: object) -> str:
    """How coins name an item."""
    return _hash(item_key(item))[:12]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_heads(name: str) -> bool:
    return bool(int(_hash(name)[0], 16) & 1)


def item_key(value: object) -> str:
    """
    Name an item by its content.

    Parameters
    ----------
    value : object
        The content of a task's field: text, number, URL, or JSON.

    Returns
    -------
    str
        The text itself where it is at most 80 characters long and no URL; otherwise a readable beginning and a
        part of the content's SHA-256, so that the same content always gets the same name and different contents
        different ones.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    is_url = _URL.match(text) is not None
    plain = " ".join(text.split())
    if len(plain) <= LONGEST_KEY and not is_url:
        return plain
    return f"{_readable_start(plain, is_url)} #{_hash(text)[:_DIGEST]}".strip()


def text_size(value: object) -> tuple[int, int] | None:
    """Characters and marks of formatting (line breaks, Markdown) of a text; None for what is no text, or an address."""
    if not isinstance(value, str) or _URL.match(value):
        return None
    return len(value), len(_MARKS.findall(value))


def _readable_start(plain: str, is_url: bool) -> str:
    """Take what a person recognises: a URL's last part without its query (signatures), or a text's first words."""
    if not is_url:
        return plain[:_HEAD].rstrip() + "…"
    if plain[:5].lower() == "data:":
        return plain[: plain.find(",")][:_HEAD] if "," in plain[:_HEAD] else "data:"
    path = re.split(r"[?#]", plain, maxsplit=1)[0].rstrip("/")
    return path.rsplit("/", 1)[-1][-_HEAD:]


def label_keys(labels: Iterable[Hashable]) -> Words:
    """One number per label; 7 and "7" have the same, as files write both alike."""
    import numpy as np  # the recorder needs names of coins and no arrays
    from pandas.util import hash_array

    return hash_array(np.array([str(label) for label in labels] + [""], dtype=object), categorize=False)[:-1]


def drawn_sides(coins: Sequence[object], items: Sequence[object], coin: Ints, left: Ints, right: Ints) -> Ints:
    """(rows,) whether a pair stands as its coin's seed has it: 1 yes, -1 no, 0 where the coin does not tell.

    ``coins``, ``items`` : labels by code. Where both orders are shown either is as the coin has it.
    """
    import numpy as np

    told = {code: seen for code, label in enumerate(coins) if (seen := told_by(label)) is not None}
    first, heads, both = np.full(len(coins), -1), np.zeros(len(coins), dtype=bool), np.zeros(len(coins), dtype=bool)
    if not told:
        return np.zeros(len(coin), dtype=np.int64)
    by_hash = {item_hash(label): code for code, label in enumerate(items)}
    for code, (item, is_heads, are_both) in told.items():
        first[code], heads[code], both[code] = by_hash.get(item, -1), is_heads, are_both
    expected, other = np.where(heads[coin], left, right), np.where(heads[coin], right, left)
    agrees = (expected == first[coin]) | (both[coin] & (other == first[coin]))
    return np.where(first[coin] < 0, 0, np.where(agrees, 1, -1))
