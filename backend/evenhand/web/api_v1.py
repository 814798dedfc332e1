"""The JSON API: annotators with flags and evidence, rankings, runs, decisions; stored runs only."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint

from evenhand.domain import CHOICES, Choice, Decision, Page, Project, Run, Trigger, choice_of
from evenhand.errors import NotFoundError, PayloadError
from evenhand.ingest.reviews import require_reviewer
from evenhand.projects import overview, reading
from evenhand.store.results import ANNOTATOR_COLUMNS, ITEM_COLUMNS
from evenhand.web.auth import access, current_user
from evenhand.web.context import get_store, json_body
from evenhand.web.openapi import BIGGEST, ID, OBJECT, PAGING, Operations, Param, View
from fdr_core import __version__
from fdr_core.report.words import finding_words

PREFIX = "/api/v1"
TIMES = frozenset(
    {
        "created_at", "last_event_at", "last_pull_at", "requested_at", "started_at", "finished_at", "first_seen",
        "last_seen", "decided_at", "recorded_at", "updated_at", "first_at", "last_at", "resolved_at", "since",
        "deleted_at", "ls_updated_at", "said_at",
    }
)  # fmt: skip
#: Names of an earlier version that outside programs may still sort by.
SORTED_BY = (*ANNOTATOR_COLUMNS, "name")
PAGE = {
    "type": "object",
    "required": ["rows", "next", "total"],
    "properties": {
        "rows": {"type": "array", "items": OBJECT},
        "next": {"type": ["string", "null"]},
        "total": {"type": "integer"},
    },
}
RUN = Param("run", "integer", "Id of a finished run; default: the latest.", low=1)
ORDER = Param("order", "string", "Direction.", default="asc", choices=("asc", "desc"))

bp = Blueprint("api_v1", __name__, url_prefix=PREFIX)
operations = Operations()


def _route(method: str, rule: str, summary: str, **more: Any) -> Callable[[View], View]:
    """Declare an operation of this API."""
    return operations.add(bp, method, rule, summary, prefix=PREFIX, **more)


def _page_route(rule: str, summary: str, *params: Param) -> Callable[[View], View]:
    """Declare an operation that answers page by page."""
    return _route("get", rule, summary, params=(*params, *PAGING), answer=PAGE)


@_route("get", "/openapi.json", "This description")
def openapi() -> dict[str, Any]:
    """The API described by itself."""
    return operations.describe(__version__)


@_route("get", "/status", "State of the service: events, pulls, queue, problems")
def service_status() -> dict[str, Any]:
    """What `evenhand status` prints."""
    return dict(to_api(overview.overview(get_store())))


@_route("get", "/projects", "All projects", answer=PAGE)
def projects() -> dict[str, Any]:
    """Every project; few enough for one page."""
    rows = [project_to_api(project) for project in get_store().projects.all()]
    return {"rows": rows, "next": None, "total": len(rows)}


@_route("get", f"/projects/<{ID}:project_id>", "One project")
def project(project_id: int) -> dict[str, Any]:
    """One project with its settings and open problems."""
    found = get_store().projects.get(project_id)
    problems = [vars(problem) for problem in get_store().problems.find(project_id)]
    said = get_store().statements.all(project_id)
    return {**project_to_api(found), "problems": to_api(problems), "side_statements": to_api(said)}


@_route("patch", f"/projects/<{ID}:project_id>/config", "Change settings", body=OBJECT)
def change_config(project_id: int) -> dict[str, Any]:
    """Lay the given keys over the project's settings."""
    values = json_body()
    if not isinstance(values, dict):
        raise PayloadError("the body is not an object of project settings")
    user = current_user()
    found = get_store().projects.get(project_id)
    return project_to_api(reading.change_config(get_store(), found, values, by=user.name if user else "unknown"))


@_page_route(
    f"/projects/<{ID}:project_id>/annotators",
    "Annotators with flags and evidence, worst first",
    RUN,
    Param("sort", "string", "Column.", default="position", choices=SORTED_BY),
    ORDER,
    Param("flagged", "boolean", "Only those flagged in this run (or not)."),
    Param("persistent", "boolean", "Only those with a lasting flag (or not)."),
    Param("search", "string", "Part of a name, address or id."),
)
def annotators(project_id: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """A page of the run's annotators, each with the decision in force."""
    run = _finished_run(project_id, query["run"])
    page = get_store().findings.page(
        run.id,
        sort=query["sort"],
        descending=query["order"] == "desc",
        flagged=query["flagged"],
        persistent=query["persistent"],
        search=query["search"],
        limit=query["limit"],
        cursor=query["cursor"],
    )
    decisions = get_store().decisions.current(project_id)
    rows = [annotator_to_api(row, decisions.get(row["annotator"])) for row in page.rows]
    warned = list(get_store().live.warned(project_id))
    return {"run": run.id, "rows": rows, "next": page.cursor, "total": page.total, "early_warnings": warned}


@_route("get", f"/projects/<{ID}:project_id>/annotators/<annotator_id>", "One annotator", params=(RUN,))
def annotator(project_id: int, annotator_id: str, query: Mapping[str, Any]) -> dict[str, Any]:
    """One annotator's evidence in a run, live evidence and decisions."""
    store = get_store()
    run = _finished_run(project_id, query["run"])
    row = store.findings.get(run.id, annotator_id)
    current = store.live.get(project_id, [annotator_id]).get(annotator_id)
    if row is None and current is not None and current.warned_at is not None:
        row = {"annotator": annotator_id, "comparisons": current.answers, "warned": True}
    if row is None:
        raise NotFoundError(f"run {run.id} has no annotator {annotator_id[:60]!r}; /annotators lists them")
    person = store.annotators.get(project_id, [annotator_id]).get(annotator_id)
    named = {**row, "name": person.name if person else None, "email": person.email if person else None}
    evidence = None if current is None else {"log_e": current.log_e, "sup_log_e": current.sup_log_e}
    lines = store.decisions.page(project_id, annotator_id=annotator_id, limit=1000).rows
    log = [_without(line, "salt") for line in lines]
    decision = store.decisions.current(project_id).get(annotator_id)
    return {**annotator_to_api(named, decision), "run": run.id, "live": to_api(evidence), "decisions": to_api(log)}


@_page_route(
    f"/projects/<{ID}:project_id>/ranking",
    "Items before and after correction",
    RUN,
    Param("sort", "string", "Column.", default="rank", choices=ITEM_COLUMNS),
    ORDER,
)
def ranking(project_id: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """A page of the run's ranking."""
    run = _finished_run(project_id, query["run"])
    store = get_store()
    page = store.rankings.page(
        run.id,
        sort=query["sort"],
        descending=query["order"] == "desc",
        limit=query["limit"],
        cursor=query["cursor"],
    )
    labels = store.items.labels(project_id, [row["item"] for row in page.rows])
    rows = [{**_without(row, "run_id"), "label": labels.get(row["item"], row["item"])} for row in page.rows]
    changes = [_without(row, "run_id", "position") for row in store.rankings.order_changes(run.id)]
    return {"run": run.id, "rows": rows, "next": page.cursor, "total": page.total, "order_changes": changes}


@_page_route(
    f"/projects/<{ID}:project_id>/tasks",
    "Tasks with their items",
    Param("is_labeled", "boolean", "Only finished ones (or not)."),
)
def tasks(project_id: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """A page of tasks."""
    get_store().projects.get(project_id)
    page = get_store().tasks.page(
        project_id, is_labeled=query["is_labeled"], limit=query["limit"], cursor=query["cursor"]
    )
    return page_to_api(page, "project_id", "seq", "deleted")


@_page_route(f"/projects/<{ID}:project_id>/runs", "Runs, newest first")
def runs(project_id: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """A page of runs."""
    get_store().projects.get(project_id)
    return page_to_api(get_store().runs.page(project_id, limit=query["limit"], cursor=query["cursor"]), "attempts")


@_route("post", f"/projects/<{ID}:project_id>/runs", "Run now")
@access("reviewer")
def run_now(project_id: int) -> dict[str, Any]:
    """Queue a run, or return the one that already waits."""
    user = current_user()
    return run_to_api(get_store().runs.request(project_id, Trigger.MANUAL, user.name if user else None))


@_route("get", f"/projects/<{ID}:project_id>/runs/<{ID}:run_id>", "One run, with its progress")
def run(project_id: int, run_id: int) -> dict[str, Any]:
    """One run."""
    return run_to_api(get_store().runs.get(run_id, project_id=project_id))


@_route("get", f"/projects/<{ID}:project_id>/audit", "Is the design fit to judge anybody", params=(RUN,))
def audit(project_id: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """The design audit of a run."""
    found = _finished_run(project_id, query["run"])
    return {"run": found.id, "audit": found.audit, "guarantee": found.guarantee}


@_page_route(
    f"/projects/<{ID}:project_id>/decisions",
    "Reviewers' decisions, newest first",
    Param("annotator", "string", "Only this annotator's."),
)
def decisions(project_id: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """A page of the append-only log, and whether its chain is intact."""
    store = get_store()
    store.projects.get(project_id)
    page = store.decisions.page(
        project_id, annotator_id=query["annotator"], limit=query["limit"], cursor=query["cursor"]
    )
    return {**page_to_api(page, "project_id", "salt"), "intact": store.decisions.verify(project_id).intact}


@_route(
    "post",
    f"/projects/<{ID}:project_id>/decisions",
    "Decide about an annotator's flag",
    body={
        "type": "object",
        "required": ["annotator", "decision"],
        "properties": {
            "annotator": {"type": "string", "minLength": 1, "maxLength": 200},
            "decision": {"enum": list(CHOICES)},
            "comment": {"type": "string", "maxLength": 5000},
            "run": {"type": ["integer", "null"], "minimum": 1, "maximum": BIGGEST},
        },
    },
)
@access("reviewer")
def decide(project_id: int) -> dict[str, Any]:
    """Append a decision under the caller's name."""
    annotator_id, decision, comment, run_id = _decision_body(json_body())
    store = get_store()
    if annotator_id not in store.annotators.get(store.projects.get(project_id).id, [annotator_id]):
        raise NotFoundError(f"project {project_id} has no annotator {annotator_id[:60]!r}; /annotators lists them")
    if run_id is not None:
        store.runs.get(run_id, project_id=project_id)
    user = current_user()
    author = user.name if user else "unknown"
    require_reviewer(store, project_id, annotator_id, author)
    made = store.decisions.add(
        project_id, annotator_id, decision, author=author, comment=comment, source="api", run_id=run_id
    )
    return decision_to_api(made)


# Served by `evenhand.web.context`, which gives the dashboard the same files.
for _name, _type, _summary in (
    ("report.html", "text/html", "The report in one file"),
    ("report.json", "application/json", "The report as data"),
    ("annotators.csv", "text/csv", "The report's annotators"),
    ("ranking.csv", "text/csv", "The report's ranking"),
    ("leans.csv", "text/csv", "The report's leans beyond position"),
):
    operations.declare(
        "get", f"{PREFIX}/projects/<{ID}:project_id>/runs/<{ID}:run_id>/{_name}", _summary, content_type=_type
    )


# Served by `evenhand.web.ml_api` and `evenhand.web.metrics`: what Label Studio and monitoring call.
_PROJECT_REF = {"type": ["string", "integer", "object"]}
_OTHERS: tuple[tuple[str, str, str, dict[str, Any] | None], ...] = (
    ("get", "/health", "Alive; needs no credentials", None),
    ("get", "/ready", "Whether the database answers; needs no credentials", None),
    ("post", "/setup", "Label Studio connects a project", {"project": _PROJECT_REF, "schema": {"type": "string"}}),
    ("post", "/predict", "Label Studio asks for the consensus", {"tasks": {"type": "array", "items": OBJECT}}),
    ("post", "/webhook", "Label Studio reports an event", {"action": {"type": "string"}, "project": OBJECT}),
    ("get", "/versions", "Versions of the latest runs", None),
)
for _method, _rule, _summary, _body in _OTHERS:
    operations.declare(
        _method,
        _rule,
        _summary,
        body={"type": "object", "required": list(_body), "properties": _body} if _body else None,
        answer=OBJECT,
    )
operations.declare("get", "/metrics", "Counters and timings for Prometheus", content_type="text/plain")


def project_to_api(found: Project) -> dict[str, Any]:
    """A project as the API shows it."""
    store = get_store()
    latest = store.runs.latest(found.id)
    shown = {
        name: getattr(found, name)
        for name in (
            "id", "ls_url", "ls_project_id", "title", "kind", "config", "counts", "created_at", "last_event_at",
            "last_pull_at", "last_pull", "deleted_at",
        )
    }  # fmt: skip
    summary = {"id": latest.id, "finished_at": latest.finished_at, "summary": latest.summary} if latest else None
    counts = {"flagged": len(store.flags.all(found.id)), "warned": len(store.live.warned(found.id))}
    return dict(to_api({**shown, "latest_run": summary, **counts}))


def run_to_api(found: Run) -> dict[str, Any]:
    """A run as the API shows it."""
    return dict(to_api(dict(vars(found))))


def decision_to_api(found: Decision) -> dict[str, Any]:
    """A decision as the API shows it."""
    return dict(to_api(_without(vars(found), "project_id", "salt")))


def annotator_to_api(row: Mapping[str, Any], decision: Decision | None) -> dict[str, Any]:
    """An annotator's row with its finding in words, and the decision in force."""
    shown = to_api({**_without(row, "run_id"), "finding": finding_words(row.get("finding"))})
    shown["decision"] = decision.decision if decision else None
    return dict(shown)


def page_to_api(page: Page, *hidden: str) -> dict[str, Any]:
    """A page of rows as the API shows it."""
    return {"rows": to_api([_without(row, *hidden) for row in page.rows]), "next": page.cursor, "total": page.total}


def to_api(value: Any) -> Any:
    """Times as ISO text, everything else as it is."""
    if isinstance(value, list | tuple):
        return [to_api(part) for part in value]
    if isinstance(value, dict):
        return {key: iso(part) if key in TIMES else to_api(part) for key, part in value.items()}
    return value


def iso(seconds: Any) -> Any:
    """Seconds since the epoch as ISO time in UTC; impossible ones stay numbers."""
    if not isinstance(seconds, int | float) or not -6e10 < seconds < 2.5e11:
        return seconds
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _finished_run(project_id: int, run_id: int | None) -> Run:
    """The asked-for finished run, or the latest."""
    store = get_store()
    if run_id is not None:
        found = store.runs.get(run_id, project_id=project_id)
        if found.status != "done":
            raise NotFoundError(f"run {run_id} is {found.status}; only finished runs have results")
        return found
    latest = store.runs.latest(store.projects.get(project_id).id)
    if latest is None:
        raise NotFoundError(f"project {project_id} has no finished run yet; POST to /runs starts one")
    return latest


def _decision_body(body: Any) -> tuple[str, Choice, str, int | None]:
    """Check the body of a decision."""
    body = body if isinstance(body, dict) else {}
    annotator_id, chosen, comment, run_id = (body.get(key) for key in ("annotator", "decision", "comment", "run"))
    decision = choice_of(chosen)
    if not isinstance(annotator_id, str) or not 0 < len(annotator_id) <= 200:
        raise PayloadError("annotator is missing; expected the annotator's id as text")
    if decision is None:
        raise PayloadError(f"decision is {str(chosen)[:60]!r}; expected one of {', '.join(CHOICES)}")
    if comment is not None and (not isinstance(comment, str) or len(comment) > 5000):
        raise PayloadError("comment is not text of at most 5000 characters")
    if run_id is not None and (isinstance(run_id, bool) or not isinstance(run_id, int) or not 0 < run_id <= BIGGEST):
        raise PayloadError(f"run is {str(run_id)[:60]!r}; expected a run's id")
    return annotator_id, decision, comment or "", run_id


def _without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A row without some columns."""
    return {key: value for key, value in row.items() if key not in names}
