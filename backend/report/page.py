"""The report as one self-contained page: no script, no outside address, drawings as SVG, made to be printed."""

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from backend.report.words import FILTERS

TEMPLATES = Path(__file__).resolve().parent.parent / "web" / "templates" / "report"
MOST_ANNOTATORS = 500
MOST_ITEMS = 200
MOST_DRAWN = 40
MOST_CHANGES = 50
# The drawing of the ranking, in its own units.
LEFT, WIDTH, ROW = 190, 700, 20


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """The template engine; everything is escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters.update(FILTERS)
    environment.filters["lean_x"] = lean_x
    return environment


@lru_cache(maxsize=1)
def style_sheet() -> str:
    """The page's only style sheet."""
    return (TEMPLATES / "report.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def content_security_policy() -> str:
    """A policy under which the page shows itself and nothing else: its style sheet is named by its hash."""
    digest = base64.b64encode(hashlib.sha256(style_sheet().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def report_html(report: Mapping[str, Any]) -> bytes:
    """The page of a report."""
    annotators = report["annotators"]
    labels = {row["item"]: row["label"] or row["item"] for row in report["ranking"]}
    text = (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            style=style_sheet(),
            policy=content_security_policy(),
            flagged=[row for row in annotators if row["flagged"]],
            waiting=sum(row["verdict"] == "not assessable yet" for row in annotators),
            shown=annotators[:MOST_ANNOTATORS],
            items=report["ranking"][:MOST_ITEMS],
            changes=report["order_changes"][:MOST_CHANGES],
            labels=labels,
            drawing=ranking_drawing(report["ranking"][:MOST_DRAWN]),
        )
    )
    return text.encode("utf-8", "replace")


def lean_x(value: float | None) -> float:
    """Where a lean in [-1, 1] stands in a drawing 120 wide."""
    return round(60 + 56 * max(-1.0, min(1.0, value or 0.0)), 1)


def ranking_drawing(items: list[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Points and intervals of the ranking before and after correction, in the drawing's units."""
    known = [row for row in items if row["score"] is not None and row["raw_score"] is not None]
    if not known:
        return None
    reach = [(row["score"], 1.96 * (row["se"] or 0.0), row["raw_score"]) for row in known]
    low = min(min(score - half, raw) for score, half, raw in reach)
    high = max(max(score + half, raw) for score, half, raw in reach)
    scale = (WIDTH - LEFT - 20) / ((high - low) or 1.0)

    def x(value: float) -> float:
        return float(round(LEFT + 10 + (value - low) * scale, 1))

    rows = [
        {
            "y": 14 + ROW * place,
            "label": row["label"] or row["item"],
            "low": x(score - half),
            "high": x(score + half),
            "score": x(score),
            "raw": x(raw),
        }
        for place, (row, (score, half, raw)) in enumerate(zip(known, reach, strict=True))
    ]
    zero = x(0.0) if low <= 0 <= high else None
    return {"rows": rows, "width": WIDTH, "height": 14 + ROW * len(rows), "left": LEFT, "zero": zero}
