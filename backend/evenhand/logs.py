"""JSON logs: one object per line, with the request's id and without secrets."""

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

request_id: ContextVar[str] = ContextVar("request_id", default="")

HIDDEN = "[hidden]"
# A secret worth the name; hiding shorter ones would black out ordinary words.
SHORTEST_SECRET = 4
_PATTERNS = (
    re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?(?:basic|bearer|token)?\s*)[^\s'\",}]+"),
    re.compile(r"(?i)((?:password|passwd|token|secret|api_key|apikey)['\"]?\s*[:=]\s*['\"]?)[^\s'\",}&]+"),
    re.compile(r"(://[^/\s:@]+:)[^@\s/]+(?=@)"),
)
# json escapes what is below a space; everything else that ends lines, hides text or turns it around is escaped here.
_UNSAFE = re.compile("[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object and blacks out secrets in every text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = tuple(sorted((s for s in secrets if len(s) >= SHORTEST_SECRET), key=len, reverse=True))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record; keyword `extra={"fields": {...}}` adds fields."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self.redact(record.getMessage()),
        }
        if request_id.get():
            entry["request_id"] = request_id.get()
        for key, value in getattr(record, "fields", {}).items():
            entry[key] = self.redact(value) if isinstance(value, str) else value
        if record.exc_info:
            entry["traceback"] = self.redact("".join(traceback.format_exception(*record.exc_info)))
        return _UNSAFE.sub(_escaped, json.dumps(entry, ensure_ascii=False, default=str))

    def redact(self, text: str) -> str:
        """The text without known secrets and without what looks like one."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for pattern in _PATTERNS:
            text = pattern.sub(rf"\1{HIDDEN}", text)
        return text


def configure_logging(level: str, secrets: Iterable[str]) -> None:
    """Send all logs of this process as JSON lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # These two report every connection at INFO, with addresses that may carry tokens.
    for noisy in ("urllib3", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
