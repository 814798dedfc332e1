"""The paper's two figures: the regularisation path, and left clicks against right clicks."""

from collections import Counter
from typing import Any

from flask import render_template

from backend.domain import Run
from backend.report.words import VERDICTS, verdict_kind
from backend.web.context import get_store
from backend.web.dashboard.blueprint import ID, bp, chosen_run, project_page

MOST_LINES = 300
MOST_POINTS = 3000
MOST_STEPS = 120
# On this page alone the library's words stand beside ours, since the paper's figures use them.
LEGEND = tuple(
    (verdict_kind(verdict), words if verdict == "not assessable" else f"{words} ({verdict})")
    for verdict, words in VERDICTS.items()
)


@bp.get(f"/projects/<{ID}:project_id>/figures")
def figures(project_id: int) -> str:
    """Both figures of a run."""
    found = get_store().get_project(project_id)
    run = chosen_run(found)
    content = _content(run) if run else {}
    return render_template("figures.html", **project_page(found, run, "figures"), legend=LEGEND, **content)


def _content(run: Run) -> dict[str, Any]:
    """The figures' data, thinned to what can be drawn."""
    store = get_store()
    rows = store.all_annotators(run.id)
    names = {key: person.name or key for key, person in store.list_annotators(run.project_id).items()}
    counts = Counter(verdict_kind(row["verdict"]) for row in rows)
    points = [
        {
            "name": names.get(row["annotator"], row["annotator"])[:80],
            "kind": verdict_kind(row["verdict"]),
            "left": row["left"],
            "right": row["right"],
            "n": row["comparisons"],
            "bias": row["bias"],
        }
        for row in rows[:MOST_POINTS]
    ]
    by_annotator = {row["annotator"]: row for row in rows}
    lines = _lines(store.run_path(run.id) or {}, by_annotator, names)
    return {
        "points": points,
        "path": lines,
        "counts": counts,
        "total": len(rows),
        "first_rows": rows[:30],
        "names": names,
    }


def _lines(path: Any, rows: dict[str, dict[str, Any]], names: dict[str, str]) -> dict[str, Any]:
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
            "kind": verdict_kind(rows[people[column]]["verdict"]) if people[column] in rows else "wait",
            "gamma": [round(gamma[k][column], 4) for k in steps],
        }
        for column in order
    ]
    return {"times": [times[k] for k in steps], "lines": lines, "total": len(people)}
