"""Short, stable names for items whose content is long or a URL."""

import hashlib
import json
import re

LONGEST_KEY = 80
_URL = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*://|data:|/data/)", re.IGNORECASE)
_HEAD = 40
_DIGEST = 16


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
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{_readable_start(plain, is_url)} #{digest}".strip()


def _readable_start(plain: str, is_url: bool) -> str:
    """Take what a person recognises: a URL's last part without its query (signatures), or a text's first words."""
    if not is_url:
        return plain[:_HEAD].rstrip() + "…"
    if plain[:5].lower() == "data:":
        return plain[: plain.find(",")][:_HEAD] if "," in plain[:_HEAD] else "data:"
    path = re.split(r"[?#]", plain, maxsplit=1)[0].rstrip("/")
    return path.rsplit("/", 1)[-1][-_HEAD:]
