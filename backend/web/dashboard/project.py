"""One project: cards, the annotator table, the audit, and what the list promises."""

from collections.abc import Mapping
from typing import Any

from flask import render_template, request

from backend.config import ProjectConfig
from backend.domain import Project, Run
from backend.report.words import VERDICTS, verdict_kind
from backend.web.context import get_store
from backend.web.dashboard.blueprint import ID, argument, bp, chosen_run, page_number, paging, project_page

PAGE_SIZE = 50
# Column of the table, its heading, and whether the first click sorts downwards.
COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("name", "Annotator", False),
    ("position", "Finding", False),
    ("comparisons", "n", True),
    ("left", "Left / right / tie", True),
    ("bias", "Lean (95 % interval)", True),
    ("draw_share", "Draws", True),
    ("p_value", "p", False),
    ("match_ratio", "Agreement", False),
)
FILTERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "": ("everybody", {}),
    "flagged": ("flagged in this run", {"flagged": True}),
    "lasting": ("with a lasting flag", {"persistent": True}),
    **{verdict_kind(verdict): (words, {"verdict": verdict}) for verdict, words in [*VERDICTS.items()][::-1]},
}


@bp.get(f"/projects/<{ID}:project_id>")
def project(project_id: int) -> str:
    """The project's page."""
    store = get_store()
    found = store.get_project(project_id)
    run = chosen_run(found)
    return render_template(
        "project.html",
        **project_page(found, run, "annotators"),
        **(_table(found, run) if run else {}),
        summary=(run.summary if run else None) or {},
        waiting=store.count_changes(found.id, run.seq or 0) if run else found.counts.get("judged", 0),
        guarantee=guarantee_parts(run),
        config=ProjectConfig.model_validate(found.config),
    )


def guarantee_parts(run: Run | None) -> tuple[str, str]:
    """Kind and sentence of a run's guarantee."""
    kind, _, sentence = ((run.guarantee if run else None) or "").partition(": ")
    return kind, sentence


def _table(found: Project, run: Run) -> dict[str, Any]:
    """A page of the annotators, sorted and filtered by the database."""
    store = get_store()
    sort = request.args.get("sort", "position")
    sort = sort if sort in {column for column, _, _ in COLUMNS} else "position"
    descending = request.args.get("order") == "desc"
    chosen = request.args.get("show", "")
    chosen = chosen if chosen in FILTERS else ""
    search = argument("search").strip()[:200]
    wanted = page_number()

    def fetch(number: int) -> Any:
        return store.page_annotators(
            run.id,
            sort=sort,
            descending=descending,
            search=search or None,
            limit=PAGE_SIZE,
            offset=(number - 1) * PAGE_SIZE,
            **FILTERS[chosen][1],
        )

    rows = fetch(wanted)
    place = paging(rows.total, PAGE_SIZE, wanted)
    rows = rows if place["number"] == wanted else fetch(place["number"])
    return {
        "rows": rows.rows,
        "paging": place,
        "columns": COLUMNS,
        "filters": [(key, words) for key, (words, _) in FILTERS.items()],
        "sort": sort,
        "descending": descending,
        "chosen": chosen,
        "search": search,
        "decisions": store.current_decisions(found.id),
        "arguments": {"show": chosen or None, "search": search or None, "run": request.args.get("run", type=int)},
    }
