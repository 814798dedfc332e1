"""Pages about what runs found: the runs, their figures, the ranking."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from flask import redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from evenhand.domain import Project, Run, Trigger
from evenhand.errors import NotFoundError
from evenhand.runs.report import compare_runs, progress_words
from evenhand.store.results import Mark
from evenhand.web.auth import access, current_user
from evenhand.web.context import get_store
from evenhand.web.dashboard.blueprint import (
    BIGGEST,
    ID,
    argument,
    bp,
    chosen_run,
    mark_of,
    page_number,
    paging,
    project_page,
    task_url,
)
from fdr_core.findings import NONE_SEEN, SMALL, SUSPICIOUS
from fdr_core.report.heaviest import beyond_noise
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


ITEMS_PER_PAGE = 100
MOST_DRAWN = 40
MOST_CHANGES = 50
#: Items in so many groups, of so many each at most, are responses to prompts and have no common scale.
LEAST_PROMPTS, MOST_RESPONSES = 10, 9
MOST_PROMPTS, MOST_TASKS = 30, 3
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
    content = _ranking_content(found, run) if run else {}
    return render_template("ranking.html", **project_page(found, run, "ranking"), **content)


def _ranking_content(found: Project, run: Run) -> dict[str, Any]:
    """The table, the drawing, the pairs that changed order and the tasks to look at."""
    store = get_store()
    sort = request.args.get("sort", "rank")
    sort = sort if sort in dict(COLUMNS) else "rank"
    descending = request.args.get("order") == "desc"
    number = page_number()
    offset = (number - 1) * ITEMS_PER_PAGE
    rows = store.rankings.page(run.id, sort=sort, descending=descending, limit=ITEMS_PER_PAGE, offset=offset)
    best = store.rankings.page(run.id, limit=MOST_DRAWN).rows
    changed = store.rankings.order_changes(run.id)
    changes = [row for row in changed if beyond_noise(row)][:MOST_CHANGES]
    again = _label_again(run)
    wanted = {row["item"] for row in (*rows.rows, *best)} | {row[key] for row in changes for key in ("above", "below")}
    wanted |= {row[key] for row in again or () for key in ("above", "below")}
    labels = store.items.labels(found.id, wanted)
    return {
        "prompts": _prompts(found, run) if _is_prompts(run) else None,
        "rows": rows.rows,
        "paging": paging(rows.total, ITEMS_PER_PAGE, number),
        "columns": COLUMNS,
        "sort": sort,
        "descending": descending,
        "arguments": {"run": request.args.get("run", type=int)},
        "labels": labels,
        "drawn": [_ranking_point(row, labels) for row in best if row["score"] is not None and row["rank"] is not None],
        "changes": changes,
        "n_changes": sum(beyond_noise(row) for row in changed),
        "n_within_noise": sum(not beyond_noise(row) for row in changed),
        "again": again,
        "task_urls": {task: task_url(found, task) for row in again or () for task in row["tasks"]},
    }


def _is_prompts(run: Run) -> bool:
    """Whether items fall into many small groups never compared with each other, as responses to prompts do."""
    figures = (run.audit or {}).get("figures") or {}
    groups = figures.get("components") or 1
    return bool(groups >= LEAST_PROMPTS and figures["items"] <= MOST_RESPONSES * groups)


def _prompts(found: Project, run: Run) -> dict[str, Any]:
    """Prompts whose winner the correction changed, the surest first, each with the former and the present winner."""
    store = get_store()
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in store.rankings.all(run.id):
        groups.setdefault(row["component"], []).append(row)
    sure = {(row["above"], row["below"]): row["probability"] for row in store.rankings.order_changes(run.id)}
    changed = []
    for rows in groups.values():
        now, before = (max(rows, key=lambda row: row[name] or 0.0) for name in ("score", "raw_score"))
        if before["raw_score"] > now["raw_score"] + 1e-12:  # who was level with it before did not lose
            pair = (now["item"], before["item"])
            changed.append({"now": pair[0], "before": pair[1], "probability": sure.get(pair)})
    changed.sort(key=lambda row: -(row["probability"] or 0.0))
    clear = sum(beyond_noise(row) for row in changed)
    shown = changed[:MOST_PROMPTS]
    tasks = store.tasks.of_pairs(found.id, [(row["now"], row["before"]) for row in shown])
    labels = store.items.labels(found.id, {row[key] for row in shown for key in ("now", "before")})
    for row in shown:
        ids = tasks.get(frozenset((row["now"], row["before"])), [])[:MOST_TASKS]
        row["tasks"] = [(task, task_url(found, task)) for task in ids]
        row["texts"] = [labels.get(row[key], row[key]) for key in ("now", "before")]
    return {"total": len(groups), "changed": len(changed), "sure": clear, "shown": shown}


def _label_again(run: Run) -> list[dict[str, Any]] | None:
    """Pairs to label again, each with whether its present order is clearer than noise; None if the run does not say."""
    pairs = (run.summary or {}).get("label_again")
    return None if pairs is None else [{**pair, "is_clear": beyond_noise(pair)} for pair in pairs]


def _ranking_point(row: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
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


PAGE_SIZE = 30
TRIGGERS: Mapping[str, str] = {
    Trigger.MANUAL: "by hand",
    Trigger.SCHEDULE: "on schedule",
    Trigger.TRAINING: "from Label Studio",
    Trigger.WARNING: "after an early warning",
    Trigger.CONNECT: "after connecting",
    Trigger.ERASURE: "after an erasure",
    Trigger.DEMO: "for the demo",
}


@bp.get(f"/projects/<{ID}:project_id>/runs")
def runs(project_id: int) -> str:
    """The history, newest first."""
    store = get_store()
    found = store.projects.get(project_id)
    page = store.runs.page(project_id, limit=PAGE_SIZE, cursor=argument("cursor") or None)
    content = project_page(found, store.runs.latest(project_id), "runs")
    return render_template("runs.html", **content, rows=page.rows, cursor=page.cursor, total=page.total)


@bp.post(f"/projects/<{ID}:project_id>/runs")
@access("reviewer")
def run_now(project_id: int) -> Response:
    """Queue a run and show its progress."""
    user = current_user()
    get_store().runs.request(project_id, Trigger.MANUAL, user.name if user else None)
    return redirect(url_for("dashboard.runs", project_id=project_id))


@bp.get(f"/projects/<{ID}:project_id>/runs/<{ID}:run_id>/progress")
def progress(project_id: int, run_id: int) -> dict[str, Any]:
    """How far a run is; a run that found nothing new is forgotten, which counts as done."""
    try:
        run = get_store().runs.get(run_id, project_id=project_id)
    except NotFoundError:
        return {"status": "done", "progress": 1.0, "note": "nothing had changed"}
    return {"status": run.status, "progress": run.progress or 0.0, "note": _note(run)}


@bp.get(f"/projects/<{ID}:project_id>/mark")
def mark(project_id: int) -> dict[str, Any]:
    """A text that changes with what the project's page shows before its first run, for the page to renew itself."""
    return {"mark": mark_of(get_store().projects.get(project_id))}


@bp.get(f"/projects/<{ID}:project_id>/compare")
def compare(project_id: int) -> str:
    """Two runs side by side: who appeared, who vanished, and why."""
    store = get_store()
    found = store.projects.get(project_id)
    older, newer = sorted((_finished(project_id, "a"), _finished(project_id, "b")), key=lambda run: run.id)
    comparison = compare_runs(store, older, newer)
    people = {entry.annotator for entry in (*comparison.appeared, *comparison.vanished)} | set(comparison.stayed)
    names = {key: person.name or key for key, person in store.annotators.get(project_id, people).items()}
    return render_template(
        "compare.html",
        **project_page(found, store.runs.latest(project_id), "runs"),
        older=older,
        newer=newer,
        comparison=comparison,
        names=names,
    )


def _finished(project_id: int, argument: str) -> Run:
    """The finished run named by an argument."""
    wanted = request.args.get(argument, type=int)
    if wanted is None or not 0 < wanted < BIGGEST:
        raise NotFoundError("choose two finished runs in the list of runs to compare them")
    run = get_store().runs.get(wanted, project_id=project_id)
    if run.status != "done":
        raise NotFoundError(f"run {wanted} is {run.status}; only finished runs can be compared")
    return run


@bp.app_template_filter("progress_words")
def _note(run: Run) -> str:
    """What a run is doing, in words."""
    return progress_words(run, get_store().clock())


def trigger_words(trigger: Any) -> str:
    """What asked for a run."""
    return TRIGGERS.get(str(trigger), "by another version")
