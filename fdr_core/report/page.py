"""The report as one self-contained page: no script, no outside address, drawings as SVG, made to be printed."""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fdr_core.findings import TOO_FEW
from fdr_core.report import opinions
from fdr_core.report.heaviest import beyond_noise
from fdr_core.report.words import FILTERS, count, finding_kind, list_words, says_lean

TEMPLATES = Path(__file__).resolve().parent / "templates"
MOST_PEOPLE = 100
MOST_ANNOTATORS = 500
MOST_ITEMS = 200
MOST_DRAWN = 25
MOST_CHANGES = 50
# The drawing of the ranking, in its own units.
LEFT, WIDTH, ROW, TOP = 190, 700, 20, 34


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """The template engine; everything is escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters.update({**FILTERS, **opinions.FILTERS})
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
    flagged = [row for row in annotators if row["flagged"]]
    labels = {row["item"]: row["label"] or row["item"] for row in report["ranking"]}
    clear = [row for row in report["order_changes"] if beyond_noise(row)]
    text = (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            style=style_sheet(),
            policy=content_security_policy(),
            headline=headline(report),
            lists=opinions.lists_words(report["method"], report["audit"]),
            made=opinions.made_words(report),
            flagged=flagged,
            people=[(row, _heaviest(report, row)) for row in flagged[:MOST_PEOPLE]],
            todo=things_to_do(report),
            shown=annotators[:MOST_ANNOTATORS],
            items=report["ranking"][:MOST_ITEMS],
            changes=clear[:MOST_CHANGES],
            n_changes=len(clear),
            n_within_noise=len(report["order_changes"]) - len(clear),
            labels=labels,
            drawing=ranking_drawing(report["ranking"][:MOST_DRAWN]),
            other_leans=other_leans_html(report),
            caterpillar=caterpillar_html(annotators, basis=report["method"]["lean_basis"]),
        )
    )
    return text.encode("utf-8", "replace")


def other_leans_html(report: Mapping[str, Any]) -> str:
    """What is found beyond position, safe to put into a page; empty where nobody asked."""
    lists = report.get("other_leans") or []
    if not lists:
        return ""
    template = _environment().get_template("other_leans.html")
    return template.render(lists=lists, drawing=leans_drawing(lists), taste=report.get("without_taste"))


#: What the picture of everybody can be sorted by.
SORTS = ("lean", "evidence", "answers", "team")


def caterpillar_html(
    rows: Sequence[Mapping[str, Any]],
    *,
    basis: Any,
    sort: str = "lean",
    address: Callable[[Any], str] | None = None,
    total: int | None = None,
) -> str:
    """Everybody's lean with its interval in one picture, safe to put into a page; empty where nobody has one.

    `rows` come with the strongest evidence first; `address` gives the page of somebody who is flagged,
    `total` how many there are where only some of those who are not flagged were given.
    """
    known = [row for row in rows if row["bias"] is not None and row["bias_low"] is not None and says_lean(row)]
    if len(known) < 2:
        return ""
    keys: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "lean": lambda row: -row["bias"],
        "answers": lambda row: -row["comparisons"],
        "team": lambda row: (row.get("team") or "\uffff", -row["bias"]),
    }
    drawn = sorted(known, key=keys[sort]) if sort in keys else known
    marks: dict[str, list[tuple[int, ...]]] = {"rest": [], "lean": [], "always": []}
    links = []
    for place, row in enumerate(drawn):
        kind = "rest" if not row["flagged"] else "always" if finding_kind(row["finding"]) == "always" else "lean"
        ends = [round(100 * (1 - float(row[name]))) for name in ("bias_low", "bias", "bias_high")]
        mark = (round((place + 0.5) / len(drawn) * 1000), *ends)
        marks[kind].append(mark)
        if row["flagged"] and address is not None:
            links.append((address(row["annotator"]), mark, row))
    return (
        _environment()
        .get_template("caterpillar.html")
        .render(
            marks=marks,
            links=links,
            size="few" if len(drawn) <= 80 else "many" if len(drawn) <= 400 else "crowd",
            n_drawn=len(drawn),
            total=total or len(drawn),
            n_left_out=0 if total else len(rows) - len(known),
            flagged=len(marks["lean"]) + len(marks["always"]),
            basis=basis,
            sort=sort,
        )
    )


def leans_drawing(lists: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """One panel per lean and one row per annotator, those on a list first, in the drawing's units."""
    ranked = [(not row["flagged"], k, row) for one in lists for k, row in enumerate(one["annotators"])]
    told = sorted((entry for entry in ranked if entry[2]["effect"] is not None), key=lambda entry: entry[:2])
    rows: dict[Any, dict[str, Mapping[str, Any]]] = {row["annotator"]: {} for *_, row in told}
    for one in lists:
        for row in one["annotators"]:
            if row["annotator"] in rows:
                rows[row["annotator"]][one["lean"]] = row
    shown = list(rows)[:MOST_DRAWN]
    if not shown:
        return None
    place = {label: TOP + ROW * k for k, label in enumerate(shown)}
    names = [{"y": y, "words": str(_name(rows[label]))} for label, y in place.items()]
    width = (WIDTH - LEFT) / len(lists)
    panels = [_panel(one, rows, place, LEFT + k * width, width) for k, one in enumerate(lists)]
    bottom = TOP + ROW * len(shown) - ROW / 2
    size = {"width": WIDTH, "height": bottom + 22, "bottom": bottom, "left": LEFT - 6, "more": len(rows) - len(shown)}
    return {"names": names, "panels": panels, **size}


def _name(row: Mapping[str, Mapping[str, Any]]) -> Any:
    first = next(iter(row.values()))
    return first["name"] or first["annotator"]


def _panel(
    one: Mapping[str, Any], rows: Mapping[Any, Any], place: Mapping[Any, int], left: float, width: float
) -> dict[str, Any]:
    """The effects of one lean, 0 at a line, as far as the largest reaches."""
    own = {label: row for label in place if (row := rows[label].get(one["lean"])) and row["effect"] is not None}
    ends = [abs(row[end]) for row in own.values() for end in ("low", "high")]
    reach = max([0.1, *ends])
    low = -reach if any(row["low"] < 0 for row in own.values()) else 0.0

    def x(value: float) -> float:
        return float(round(left + 12 + (value - low) / (reach - low) * (width - 24), 1))

    marks = [
        {
            "y": place[label],
            "x": x(row["effect"]),
            "low": x(row["low"]),
            "high": x(row["high"]),
            "flagged": row["flagged"],
        }
        for label, row in own.items()
    ]
    edge = int(10 * reach) / 10
    ticks = [
        {"x": x(at), "words": f"{at:+.0%}" if at else "0"} for at in ((-edge, 0.0, edge) if low < 0 else (0.0, edge))
    ]
    return {"title": one["lean"], "middle": left + width / 2, "zero": x(0.0), "marks": marks, "ticks": ticks}


def headline(report: Mapping[str, Any]) -> str:
    """What a lead must know, in one sentence."""
    annotators = report["annotators"]
    waiting = sum(not row["flagged"] and (row["finding"] == TOO_FEW or bool(row["more_needed"])) for row in annotators)
    if report["audit"]["construction"] == "none":
        return f"Nobody could be judged: {(report['audit']['reasons'] or ['the audit says why.'])[-1]}"
    told = [list_words(annotators, report["guarantee"]["kind"], report["parameters"].get("q"))]
    if waiting:
        told.append(f"{count(waiting)} {'has' if waiting == 1 else 'have'} too few answers.")
    return " ".join(told)


def things_to_do(report: Mapping[str, Any]) -> list[str]:
    """What a lead can do next, the most useful first."""
    listed = [row for row in report["annotators"] if row["flagged"]]
    flagged = [row for row in listed if not row.get("decision")]
    strong = sum(opinions.strength(row) == "strong" for row in flagged)
    told = list(report["audit"]["remedies"])
    if flagged:
        begin = (
            f"begin with the {count(strong)} where the evidence is strong"
            if strong
            else "none of the evidence is strong"
        )
        told.append(
            f"Look at the answers listed under each name before anything else, and pause nobody on one list; {begin}. "
            "Screens, shortcuts and instructions can cause a lean too."
        )
    if listed and not flagged:
        told.append("Everybody flagged has been decided about.")
    if listed:
        told.append("Use the corrected ranking below; the answers need not be thrown away.")
    return told


def _heaviest(report: Mapping[str, Any], row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [answer for answer in report["heaviest_answers"] if answer["annotator"] == row["annotator"]]


def ranking_drawing(items: list[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Points and intervals of the ranking before and after correction, in the drawing's units."""
    known = [row for row in items if row["rank"] is not None and row["raw_score"] is not None]
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
