"""Pages about projects: all of them, and one with its annotators."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import requests
from flask import flash, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from evenhand.administer.connect import connect_project
from evenhand.domain import Project, Run, Trigger
from evenhand.errors import PayloadError, RequestError
from evenhand.ingest.pull import pull_project
from evenhand.label_studio.client import LabelStudioClient, client_from_settings, service_url
from evenhand.label_studio.transport import LabelStudioError
from evenhand.project_config import ProjectConfig
from evenhand.projects.demo import DEMOS, load_demo
from evenhand.projects.reading import ASSIGNMENTS, state_sides
from evenhand.runs.report import put_together
from evenhand.web.auth import current_user
from evenhand.web.context import get_settings, get_store
from evenhand.web.dashboard.annotator import queue_of
from evenhand.web.dashboard.blueprint import (
    BIGGEST,
    ID,
    argument,
    bp,
    chosen_run,
    form_text,
    mark_of,
    page_number,
    paging,
    project_page,
)
from fdr_core.findings import FINDINGS
from fdr_core.report.opinions import lists_words
from fdr_core.report.page import SORTS, caterpillar_html, other_leans_html
from fdr_core.report.words import KINDS, cause_of, guarantee_parts

PAGE_SIZE = 50
#: Of more people than this the picture of everybody shows some of those who are not flagged.
MOST_LINES = 2000
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
        other_leans=_other_leans(found, run) if run else "",
        everybody=_everybody(found, run) if run else "",
        plot=_plot_sort(),
        sorts=SORTS,
        waiting=store.comparisons.count_since(found.id, run.seq or 0) if run else found.counts.get("judged", 0),
        lists=lists_words((run.summary or {}), run.audit) if run else "",
        guarantee=guarantee_parts(run.guarantee if run else None),
        warned=_warned(found, run),
        config=ProjectConfig.model_validate(found.config),
        findings=FINDINGS,
        mark="" if run else mark_of(found),
    )


def _plot_sort() -> str:
    asked = request.args.get("plot", "")
    return asked if asked in SORTS else SORTS[0]


def _everybody(found: Project, run: Run) -> str:
    """The picture of all leans; who is flagged in it leads to the evidence."""

    def address(key: Any) -> str:
        return url_for("dashboard.annotator", project_id=found.id, id=key, run=request.args.get("run", type=int))

    team, summary = argument("team"), run.summary or {}
    total = int((summary.get("data") or {}).get("annotators") or 0)
    every = -(-total // MOST_LINES) or 1
    marks = [mark._asdict() for mark in get_store().findings.marks(run.id, every=every, team=team)]
    return caterpillar_html(
        marks,
        basis=summary.get("lean_basis"),
        sort=_plot_sort(),
        address=address,
        total=total if every > 1 and not team else None,
    )


def _other_leans(found: Project, run: Run) -> str:
    """What the run found beyond position, as in its report; empty where nobody asked."""
    summary, store = run.summary or {}, get_store()
    if not summary.get("other_leans"):
        return ""
    people = store.annotators.get(found.id)
    rows = [
        {**row, "name": people[row["annotator"]].name if row["annotator"] in people else None}
        for row in store.findings.all(run.id)
    ]
    return other_leans_html(put_together(summary, rows))


def _warned(found: Project, run: Run | None) -> dict[str, Any]:
    """How many early warnings stand, and those about people whom the run shown does not know yet."""
    store = get_store()
    lasting = {flag["annotator_id"] for flag in store.flags.all(found.id)}  # who holds more needs no warning
    evidence = {key: one for key, one in store.live.warned(found.id).items() if key not in lasting}
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
    search, team = argument("search").strip()[:200], argument("team")[:200]
    chosen, usual = request.args.get("show", ""), TO_REVIEW if queue.undecided and not (search or team) else EVERYBODY
    chosen = chosen if chosen in filters else usual
    narrowed = {"among": queue.undecided} if chosen == TO_REVIEW else filters[chosen][1]
    wanted = page_number()

    def fetch(number: int) -> Any:
        return store.findings.page(
            run.id,
            sort=sort,
            descending=descending,
            search=search or None,
            team=team or None,
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
        "team": team,
        "teams": store.annotators.teams(found.id),
        "decisions": store.decisions.current(found.id),
        "queue": queue,
        "is_narrowed": bool(search or team) or chosen != EVERYBODY,
        "arguments": {
            "show": chosen if chosen != usual else None,
            "search": search or None,
            "team": team or None,
            "run": request.args.get("run", type=int),
        },
    }


#: A project with more answers than this is fetched by the worker, so that nobody waits for the page.
FETCHED_AT_ONCE = 2000


@bp.get("/")
def projects() -> str:
    """Every project with its state."""
    return _page()


def _page(typed: Mapping[str, str] | None = None, message: str = "") -> str:
    """The page, with what was typed into the form to connect a project, and beside it why that did not work."""
    store = get_store()
    problems = store.problems.find()
    rows = [_row(project, problems) for project in store.projects.all()]
    settings = get_settings()
    reachable = settings.label_studio_url if settings.label_studio_api_key else ""
    return render_template(
        "projects.html",
        rows=rows,
        problems=_shared(problems),
        titles={row["project"].id: row["project"].title for row in rows},
        address=service_url(settings),
        label_studio_url=(settings.label_studio_public_url or reachable) if reachable else "",
        assignments=ASSIGNMENTS,
        demos=[kind for kind, one in DEMOS.items() if one.title not in {row["project"].title for row in rows}],
        typed=typed or {},
        message=message,
    )


@bp.post("/connect")
def connect() -> Response:
    """Connect a project of Label Studio, as `evenhand connect` does; what stands in the way is said on the form."""
    typed = {"project": form_text("project"), "sides": form_text("sides")}
    try:
        project = _connect(typed["project"], typed["sides"])
    except (RequestError, LabelStudioError) as error:
        words, _ = cause_of(str(error))
        return make_response(_page(typed, f"{words}; {error.remedy}" if error.remedy else words), error.status)
    flash("Connected. New answers arrive as they are given.")
    return redirect(url_for("dashboard.project", project_id=project.id))


def _connect(number: str, sides: str) -> Project:
    """Register the project on both sides and take the owner's word on the sides."""
    if not number.isdecimal() or not 0 < int(number) < BIGGEST or sides not in ASSIGNMENTS:
        raise PayloadError(f"the project number was {number[:40]!r}; expected the one in its address in Label Studio")
    user, store, settings = current_user(), get_store(), get_settings()
    name = user.name if user else "unknown"
    with requests.Session() as session:
        client = client_from_settings(settings, session)
        if client is None:
            raise PayloadError("LABEL_STUDIO_URL or LABEL_STUDIO_API_KEY is not set; set both and restart the service")
        project = connect_project(store, client, settings, int(number), {}).project
        _fetch_if_small(client, project)
    project = state_sides(store, project, sides, by=name)
    if store.projects.get(project.id).counts.get("judged"):
        store.runs.request(project.id, Trigger.CONNECT, name)
    return project


def _fetch_if_small(client: LabelStudioClient, project: Project) -> None:
    """Fetch few answers while somebody waits for the first list; many are fetched by the worker."""
    described = client.project(project.ls_project_id)
    if int(described.get("total_annotations_number") or 0) <= FETCHED_AT_ONCE:
        pull_project(get_store(), client, project, full=True)


@bp.post("/demo")
def demo() -> Response:
    """Load a simulated crowd and ask for a run."""
    user = current_user()
    project = load_demo(get_store(), form_text("kind") or "photos", requested_by=user.name if user else None)
    return redirect(url_for("dashboard.project", project_id=project.id))


def _shared(problems: list[Any]) -> list[Any]:
    """Problems that are not one project's own: of the service, or with one cause for several projects."""
    causes = Counter(cause_of(problem.message)[0] for problem in problems)
    return [one for one in problems if one.project_id is None or causes[cause_of(one.message)[0]] > 1]


def _row(project: Project, problems: list[Any]) -> dict[str, Any]:
    """One project's state."""
    store = get_store()
    latest, newest = store.runs.latest(project.id), store.runs.latest(project.id, status=None)
    return {
        "project": project,
        "latest": latest,
        "newest": newest,
        "summary": (latest.summary if latest else None) or {},
        "construction": ((latest.audit if latest else None) or {}).get("construction"),
        "problems": [problem for problem in problems if problem.project_id == project.id],
    }
