"""Two figures: the regularisation path, and lean against number of answers, or the paper's left against right."""

from collections import Counter
from typing import Any

from flask import render_template, request, url_for

from backend.domain import Run
from backend.report.words import finding_kind, finding_words
from backend.web.context import get_store
from backend.web.dashboard.blueprint import ID, bp, chosen_run, project_page

MOST_LINES = 300
MOST_POINTS = 3000
#: More people than this are drawn as a density, the flagged among them as marks.
MOST_MARKS = 1000
MOST_STEPS = 120
# On this page alone the library's words stand beside ours, since the paper's figures use them.
LEGEND = (
    ("calm", "not flagged (good)"),
    ("lean", "leans to one side (ugly)"),
    ("always", "always one side (bad)"),
    ("wait", "not certain, or not assessable"),
)


@bp.get(f"/projects/<{ID}:project_id>/figures")
def figures(project_id: int) -> str:
    """Both figures of a run."""
    found = get_store().projects.get(project_id)
    run = chosen_run(found)
    is_paper = request.args.get("form") == "paper"
    content = _content(run, is_paper) if run else {}
    page = project_page(found, run, "figures")
    return render_template("figures.html", **page, legend=LEGEND, is_paper=is_paper, **content)


def _content(run: Run, is_paper: bool) -> dict[str, Any]:
    """The figures' data, thinned to what can be drawn."""
    store = get_store()
    rows = store.findings.all(run.id)
    names = {key: person.name or key for key, person in store.annotators.get(run.project_id).items()}
    counts = Counter(finding_kind(row["finding"]) for row in rows)
    is_dense = len(rows) > MOST_MARKS and not is_paper
    drawn = [row for row in rows if row["flagged"]][:MOST_MARKS] if is_dense else rows[:MOST_POINTS]
    cloud = [
        [round(row["bias"], 2), row["comparisons"]] for row in rows if row["bias"] is not None and not row["flagged"]
    ]
    points = {"points": [_point(run, row, names) for row in drawn], "cloud": cloud if is_dense else []}
    by_annotator = {row["annotator"]: row for row in rows}
    lines = _lines(run, store.runs.path(run.id) or {}, by_annotator, names)
    return {
        "points": points,
        "path": lines,
        "counts": counts,
        "total": len(rows),
        "n_drawn": len(rows) if is_dense else len(drawn),
        "first_rows": rows[:30],
        "names": names,
    }


def _point(run: Run, row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """One annotator as a mark that names and links whom it stands for."""
    return {
        "name": names.get(row["annotator"], row["annotator"])[:80],
        "finding": finding_words(row["finding"]),
        "kind": finding_kind(row["finding"]),
        "left": row["left"],
        "right": row["right"],
        "n": row["comparisons"],
        "bias": row["bias"],
        "url": _address(run, row),
    }


def _address(run: Run, row: dict[str, Any] | None) -> str | None:
    """The page of a flagged annotator; other marks are no links."""
    if row is None or not row["flagged"]:
        return None
    return url_for("dashboard.annotator", project_id=run.project_id, id=row["annotator"])


def _lines(run: Run, path: Any, rows: dict[str, dict[str, Any]], names: dict[str, str]) -> dict[str, Any]:
    """The path of the annotators drawn: the flagged ones and those that stand out most."""
    times, people, gamma = path.get("times") or [], path.get("annotators") or [], path.get("gamma") or []
    step = max(1, -(-len(times) // MOST_STEPS))
    steps = sorted({*range(0, len(times), step), *([len(times) - 1] if times else [])})
    order = sorted(
        range(len(people)), key=lambda column: rows[people[column]]["position"] if people[column] in rows else 10**9
    )[:MOST_LINES]
    lines = [
        {
            "name": names.get(people[column], people[column])[:80],
            "finding": finding_words(rows.get(people[column], {}).get("finding")),
            "kind": finding_kind(rows.get(people[column], {}).get("finding")),
            "url": _address(run, rows.get(people[column])),
            "gamma": [round(gamma[k][column], 4) for k in steps],
        }
        for column in order
    ]
    return {"times": [times[k] for k in steps], "lines": lines, "total": len(people)}
