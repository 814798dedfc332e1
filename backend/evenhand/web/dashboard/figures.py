"""Two figures: the regularisation path, and lean against number of answers, or the paper's left against right."""

from collections import Counter
from typing import Any

from flask import render_template, request, url_for

from evenhand.domain import Run
from evenhand.store.results import Mark
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import ID, bp, chosen_run, project_page
from fdr_core.findings import NONE_SEEN, SMALL, SUSPICIOUS
from fdr_core.report.words import count, finding_kind, finding_words

MOST_LINES = 300
MOST_POINTS = 3000
#: More people than this are drawn as a density, the flagged among them as marks.
MOST_MARKS = 1000
MOST_STEPS = 120
NO_LEAN, UNCERTAIN, NOT_JUDGED = "no lean seen", "small or uncertain lean, not flagged", "not judged"
#: What each kind of mark stands for, and the paper's word for it; its "good" is for those without a sign of a lean.
LEGEND: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("calm", (NO_LEAN,), "good"),
    ("lean", ("leans to one side",), "ugly"),
    ("always", ("always one side",), "bad"),
    ("wait", (UNCERTAIN, NOT_JUDGED), ""),
)
#: What the legend calls the findings of those who are not flagged; any other is "not judged".
NOT_FLAGGED = {NONE_SEEN: NO_LEAN, "no lean found": NO_LEAN, SMALL: UNCERTAIN, SUSPICIOUS: UNCERTAIN}


@bp.get(f"/projects/<{ID}:project_id>/figures")
def figures(project_id: int) -> str:
    """Both figures of a run."""
    found = get_store().projects.get(project_id)
    run = chosen_run(found)
    is_paper = request.args.get("form") == "paper"
    content = _content(run, is_paper) if run else {}
    page = project_page(found, run, "figures")
    return render_template("figures.html", **page, is_paper=is_paper, **content)


def _legend(rows: list[Mark], *, is_paper: bool) -> list[tuple[str, str]]:
    """Every mark and how many it stands for; the paper's words, which judge people, stand in its own form alone."""
    counts = Counter(_group(row.finding) for row in rows)
    return [
        (
            kind,
            "; ".join(
                f"{words}{f' ({paper})' if is_paper and paper else ''}: {count(counts[words])}" for words in each
            ),
        )
        for kind, each, paper in LEGEND
    ]


def _group(finding: str | None) -> str:
    """What the legend calls a finding."""
    kind = finding_kind(finding)
    if kind in ("lean", "always"):
        return next(words for mark, (words, *_), _ in LEGEND if mark == kind)
    return NOT_FLAGGED.get(str(finding), NOT_JUDGED)


def _mark(finding: str | None) -> str:
    """The kind of mark of a finding: a small lean is not flagged, but is drawn apart from those where none is seen."""
    group = _group(finding)
    return next(kind for kind, each, _ in LEGEND if group in each)


def _content(run: Run, is_paper: bool) -> dict[str, Any]:
    """The figures' data, thinned to what can be drawn."""
    store = get_store()
    rows = store.findings.marks(run.id)
    is_dense = len(rows) > MOST_MARKS and not is_paper
    drawn = [row for row in rows if row.flagged][:MOST_MARKS] if is_dense else rows[:MOST_POINTS]
    cloud = [(round(row.bias, 2), row.comparisons) for row in rows if row.bias is not None and not row.flagged]
    return {
        "points": {"points": [_point(run, row) for row in drawn], "cloud": cloud if is_dense else []},
        "path": _lines(run, store.runs.path(run.id) or {}, {row.annotator: row for row in rows}),
        "legend": _legend(rows, is_paper=is_paper),
        "total": len(rows),
        "n_drawn": len(rows) if is_dense else len(drawn),
        "first_rows": rows[:30],
    }


def _name(row: Mark) -> str:
    return str(row.name or row.annotator)[:80]


def _point(run: Run, row: Mark) -> dict[str, Any]:
    """One annotator as a mark that names and links whom it stands for."""
    return {
        "name": _name(row),
        "finding": finding_words(row.finding),
        "kind": _mark(row.finding),
        "left": row.left,
        "right": row.right,
        "n": row.comparisons,
        "bias": row.bias,
        "url": _address(run, row),
    }


def _address(run: Run, row: Mark) -> str | None:
    """The page of a flagged annotator; other marks are not links."""
    return url_for("dashboard.annotator", project_id=run.project_id, id=row.annotator) if row.flagged else None


def _lines(run: Run, path: Any, rows: dict[str, Mark]) -> dict[str, Any]:
    """The path of the annotators drawn: the flagged ones and those that stand out most."""
    times, people, gamma = path.get("times") or [], path.get("annotators") or [], path.get("gamma") or []
    step = max(1, -(-len(times) // MOST_STEPS))
    steps = sorted({*range(0, len(times), step), *([len(times) - 1] if times else [])})
    known = [(rows[key].position, column, rows[key]) for column, key in enumerate(people) if key in rows]
    lines = [
        {
            "name": _name(row),
            "finding": finding_words(row.finding),
            "kind": _mark(row.finding),
            "url": _address(run, row),
            "gamma": [round(gamma[k][column], 4) for k in steps],
        }
        for _, column, row in sorted(known, key=lambda one: one[:2])[:MOST_LINES]
    ]
    return {"times": [times[k] for k in steps], "lines": lines, "total": len(people)}
