"""One project: the annotator table, narrowed to what waits for a decision, the audit, and what the list promises."""

from collections.abc import Mapping
from typing import Any

from flask import render_template, request

from evenhand.domain import Project, Run
from evenhand.project_config import ProjectConfig
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import ID, argument, bp, chosen_run, mark_of, page_number, paging, project_page
from evenhand.web.dashboard.review import queue_of
from fdr_core.findings import FINDINGS
from fdr_core.report.opinions import lists_words
from fdr_core.report.words import KINDS, guarantee_parts

PAGE_SIZE = 50
EVIDENCE = "Evidence"
# Column of the table, its heading, and whether the first click sorts downwards.
COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("name", "Annotator", False),
    ("position", "Finding", False),
    ("comparisons", "n", True),
    ("left", "Left / right / tie", True),
    ("bias", "Lean (95 % interval)", True),
    ("q_value", EVIDENCE, False),
    ("match_ratio", "Agreement", False),
)
TO_REVIEW, EVERYBODY = "review", "everybody"
FILTERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    TO_REVIEW: ("flagged, undecided", {}),
    "flagged": ("flagged in this run", {"flagged": True}),
    "lasting": ("with a lasting flag", {"persistent": True}),
    EVERYBODY: ("everybody", {}),
}
DIFFER: Mapping[str, tuple[str, Mapping[str, Any]]] = {"differ": ("lists differ", {"differ": True})}


@bp.get(f"/projects/<{ID}:project_id>")
def project(project_id: int) -> str:
    """The project's page."""
    store = get_store()
    found = store.projects.get(project_id)
    run = chosen_run(found)
    return render_template(
        "project.html",
        **project_page(found, run, "annotators"),
        **(_table(found, run) if run else {}),
        summary=(run.summary if run else None) or {},
        waiting=store.comparisons.count_since(found.id, run.seq or 0) if run else found.counts.get("judged", 0),
        lists=lists_words((run.summary or {}), run.audit) if run else "",
        guarantee=guarantee_parts(run.guarantee if run else None),
        warned=_warned(found, run),
        config=ProjectConfig.model_validate(found.config),
        findings=FINDINGS,
        mark="" if run else mark_of(found),
    )


def _warned(found: Project, run: Run | None) -> dict[str, Any]:
    """How many early warnings stand, and those about people whom the run shown does not know yet."""
    store = get_store()
    evidence = store.live.warned(found.id)
    known = store.findings.known(run.id, evidence) if run else set()
    people = store.annotators.get(found.id, [key for key in evidence if key not in known])
    search = argument("search").strip()[:200].lower()
    fresh = [
        {"annotator": key, "name": person.name, "answers": evidence[key].answers, "since": evidence[key].warned_at}
        for key, person in people.items()
        if search in " ".join(filter(None, (key, person.name, person.email))).lower()
    ]
    return {"total": len(evidence), "ids": set(evidence), "fresh": fresh}


def _filters(run: Run) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """What the table can be narrowed to: everybody, the flagged, and each finding the run's method knows."""
    summary = run.summary or {}
    differ = DIFFER if summary.get("differences") else {}
    return {**FILTERS, **differ, **{words: (words, {"finding": words}) for words in KINDS}}


def _columns(run: Run) -> tuple[tuple[str, str, bool], ...]:
    """The columns; evidence is sorted by what the deciding method goes by."""
    if (run.summary or {}).get("decided_by") != "lbi":
        return COLUMNS
    return tuple(
        ("lbi_share", title, True) if title == EVIDENCE else (key, title, down) for key, title, down in COLUMNS
    )


def _table(found: Project, run: Run) -> dict[str, Any]:
    """A page of the annotators, sorted and filtered by the database."""
    store = get_store()
    sort = request.args.get("sort", "position")
    columns = _columns(run)
    sort = sort if sort in {column for column, _, _ in columns} else "position"
    descending = request.args.get("order") == "desc"
    filters, queue = _filters(run), queue_of(run, found.id)
    search = argument("search").strip()[:200]
    chosen, usual = request.args.get("show", ""), TO_REVIEW if queue.undecided and not search else EVERYBODY
    chosen = chosen if chosen in filters else usual
    narrowed = {"among": queue.undecided} if chosen == TO_REVIEW else filters[chosen][1]
    wanted = page_number()

    def fetch(number: int) -> Any:
        return store.findings.page(
            run.id,
            sort=sort,
            descending=descending,
            search=search or None,
            limit=PAGE_SIZE,
            offset=(number - 1) * PAGE_SIZE,
            **narrowed,
        )

    rows = fetch(wanted)
    place = paging(rows.total, PAGE_SIZE, wanted)
    rows = rows if place["number"] == wanted else fetch(place["number"])
    return {
        "rows": rows.rows,
        "paging": place,
        "columns": columns,
        "filters": [(key, words) for key, (words, _) in filters.items()],
        "sort": sort,
        "descending": descending,
        "chosen": chosen,
        "search": search,
        "decisions": store.decisions.current(found.id),
        "queue": queue,
        "is_narrowed": bool(search) or chosen != EVERYBODY,
        "arguments": {
            "show": chosen if chosen != usual else None,
            "search": search or None,
            "run": request.args.get("run", type=int),
        },
    }
