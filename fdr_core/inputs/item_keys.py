"""Short, stable names for items whose content is long or a URL, and for coins that tell the seed they came from."""

import hashlib
import json
import re

LONGEST_KEY = 80
_URL = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*://|data:|/data/)", re.IGNORECASE)
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


def _readable_start(plain: str, is_url: bool) -> str:
    """Take what a person recognises: a URL's last part without its query (signatures), or a text's first words."""
    if not is_url:
        return plain[:_HEAD].rstrip() + "…"
    if plain[:5].lower() == "data:":
        return plain[: plain.find(",")][:_HEAD] if "," in plain[:_HEAD] else "data:"
    path = re.split(r"[?#]", plain, maxsplit=1)[0].rstrip("/")
    return path.rsplit("/", 1)[-1][-_HEAD:]
