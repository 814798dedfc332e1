"""The ranking before and after correction, and what to label again."""

from typing import Any

from flask import render_template, request

from evenhand.domain import Project, Run
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import ID, bp, chosen_run, page_number, paging, project_page, task_url
from fdr_core.report.heaviest import beyond_noise

PAGE_SIZE = 100
MOST_DRAWN = 40
MOST_CHANGES = 50
COLUMNS = (
    ("rank", "Rank"),
    ("item", "Item"),
    ("rank_low", "Rank, 95 %"),
    ("score", "Score ± s.e."),
    ("raw_rank", "Rank before"),
    ("raw_score", "Score before"),
)


@bp.get(f"/projects/<{ID}:project_id>/ranking")
def ranking(project_id: int) -> str:
    """The ranking's page."""
    found = get_store().projects.get(project_id)
    run = chosen_run(found)
    content = _content(found, run) if run else {}
    return render_template("ranking.html", **project_page(found, run, "ranking"), **content)


def _content(found: Project, run: Run) -> dict[str, Any]:
    """The table, the drawing, the pairs that changed order and the tasks to look at."""
    store = get_store()
    sort = request.args.get("sort", "rank")
    sort = sort if sort in dict(COLUMNS) else "rank"
    descending = request.args.get("order") == "desc"
    number = page_number()
    offset = (number - 1) * PAGE_SIZE
    rows = store.rankings.page(run.id, sort=sort, descending=descending, limit=PAGE_SIZE, offset=offset)
    best = store.rankings.page(run.id, limit=MOST_DRAWN).rows
    changed = store.rankings.order_changes(run.id)
    changes = [row for row in changed if beyond_noise(row)][:MOST_CHANGES]
    again = _label_again(run)
    wanted = {row["item"] for row in (*rows.rows, *best)} | {row[key] for row in changes for key in ("above", "below")}
    wanted |= {row[key] for row in again or () for key in ("above", "below")}
    labels = store.items.labels(found.id, wanted)
    return {
        "rows": rows.rows,
        "paging": paging(rows.total, PAGE_SIZE, number),
        "columns": COLUMNS,
        "sort": sort,
        "descending": descending,
        "arguments": {"run": request.args.get("run", type=int)},
        "labels": labels,
        "drawn": [_point(row, labels) for row in best if row["score"] is not None],
        "changes": changes,
        "n_changes": sum(beyond_noise(row) for row in changed),
        "n_within_noise": sum(not beyond_noise(row) for row in changed),
        "again": again,
        "task_urls": {task: task_url(found, task) for row in again or () for task in row["tasks"]},
    }


def _label_again(run: Run) -> list[dict[str, Any]] | None:
    """Pairs to label again, each with whether its present order is clearer than noise; None if the run does not say."""
    pairs = (run.summary or {}).get("label_again")
    return None if pairs is None else [{**pair, "is_clear": beyond_noise(pair)} for pair in pairs]


def _point(row: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """An item for the chart."""
    half = 1.96 * (row["se"] or 0.0)
    return {
        "item": row["item"],
        "label": labels.get(row["item"], row["item"])[:200],
        "rank": row["rank"],
        "before": row["raw_rank"],
        "raw": row["raw_score"],
        "score": row["score"],
        "low": row["score"] - half,
        "high": row["score"] + half,
    }
