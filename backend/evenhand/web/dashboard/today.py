"""Pages for every morning: today over all projects and in one, one person everywhere, and a page to hand out."""

import csv
import io
from collections.abc import Mapping
from typing import Any

from flask import flash, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from evenhand.domain import Project, Run
from evenhand.errors import NotFoundError, PayloadError
from evenhand.runs.report import compare_runs
from evenhand.web.auth import access
from evenhand.web.context import get_store
from evenhand.web.dashboard.annotator import queue_of
from evenhand.web.dashboard.blueprint import ID, argument, bp, chosen_run, page_number, paging, project_page

PAGE_SIZE = 25
MOST_MULTIPLES = 24
MOST_NAMED = 12
#: Column of the people's table, its heading, and whether the first click sorts downwards.
COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("name", "Annotator", False),
    ("today", "Today", True),
    ("yesterday", "Yesterday", True),
    ("answers", "14 days", True),
    ("seconds", "Median time", False),
    ("skipped", "Skipped", True),
    ("match_ratio", "Agreement", False),
)


@bp.get("/today")
def today() -> str:
    """Every project's day on one page."""
    store = get_store()
    return render_template("today_all.html", rows=[_day(project) for project in store.projects.all()])


def _day(project: Project) -> dict[str, Any]:
    """One project's row."""
    run = get_store().runs.latest(project.id)
    return {
        "project": project,
        "run": run,
        "work": _work(project).total,
        "daily": ((run.summary if run else None) or {}).get("daily") or {},
        "queue": queue_of(run, project.id),
        "changed": _changed(run),
    }


@bp.get(f"/projects/<{ID}:project_id>/today")
def project_today(project_id: int) -> str:
    """One project's day: what came in, who needs a look, what the last run changed, everybody's weeks."""
    store = get_store()
    found, team = store.projects.get(project_id), argument("team")[:200]
    run = store.runs.latest(project_id)
    marks = {mark.annotator: mark for mark in (store.findings.marks(run.id) if run else ())}
    known = store.annotators.get(project_id)
    among = [key for key, person in known.items() if person.team == team] if team else None
    done = _work(found, among)
    queue, daily = queue_of(run, project_id), ((run.summary if run else None) or {}).get("daily") or {}
    turned = {row["annotator"]: row for row in daily.get("changed") or ()}
    leading = [*(mark.annotator for mark in marks.values() if mark.flagged), *turned]
    busiest = sorted(marks, key=lambda key: -marks[key].comparisons)
    shown = [key for key in dict.fromkeys([*leading, *busiest]) if among is None or key in among][:MOST_MULTIPLES]
    people, place, sort, descending = _people(done.people, marks, known)
    told = store.findings.rows(run.id, {*shown, *(row["id"] for row in people)}) if run else {}
    return render_template(
        "today.html",
        **project_page(found, run, "today"),
        work=done.total,
        daily=daily,
        agreement=_mean([mark.match_ratio for key, mark in marks.items() if among is None or key in among]),
        queue=queue,
        review=[told_of for key in queue.undecided[:MOST_NAMED] if (told_of := marks.get(key))],
        turned=[(key, row) for key, row in turned.items() if among is None or key in among],
        changed=_changed(run),
        multiples=[(key, told[key]) for key in shown if (told.get(key, {}).get("trend") or {}).get("weeks")],
        people=people,
        trends={key: row.get("trend") or {} for key, row in told.items()},
        names={key: person.name or key for key, person in known.items()},
        paging=place,
        columns=COLUMNS,
        sort=sort,
        descending=descending,
        team=team,
        teams=store.annotators.teams(project_id),
    )


def _work(project: Project, among: list[str] | None = None) -> Any:
    """Two weeks of a project; what sums them up is loaded when somebody asks."""
    from evenhand.runs.today import work

    return work(get_store(), project, among=among)


def _changed(run: Run | None) -> Any:
    """The last run beside the one before; None where there is no such."""
    before = get_store().runs.before(run) if run else None
    return compare_runs(get_store(), before, run) if run and before else None


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _people(
    done: Mapping[str, Mapping[str, Any]], marks: Mapping[str, Any], known: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], Mapping[str, Any], str, bool]:
    """A page of the people who worked in these two weeks, sorted."""
    sort = request.args.get("sort", "answers")
    first = {column: down for column, _, down in COLUMNS}
    sort = sort if sort in first else "answers"
    descending = request.args.get("order", "desc" if first[sort] else "asc") == "desc"
    rows = [
        {
            **row,
            "id": key,
            "name": (known[key].name if key in known else None) or key,
            "match_ratio": marks[key].match_ratio if key in marks else None,
            "mark": marks.get(key),
        }
        for key, row in done.items()
    ]
    told = sorted((row for row in rows if row[sort] is not None), key=lambda row: row[sort], reverse=descending)
    told += [row for row in rows if row[sort] is None]
    place = paging(len(told), PAGE_SIZE, page_number())
    return told[place["first"] - 1 if told else 0 : place["until"]], place, sort, descending


@bp.get("/person")
def person() -> str:
    """One person over all projects of a Label Studio, by id or e-mail address."""
    store, wanted = get_store(), argument("id").strip()[:300]
    found = store.people.find(wanted) if wanted else {}
    rows = []
    for address, ids in sorted(found.items()):
        for project in store.people.projects(address):
            if project.kind == "alerts" or project.deleted_at is not None:
                continue
            run = store.runs.latest(project.id)
            decisions = store.decisions.current(project.id)
            names = store.annotators.get(project.id, ids)
            for key, row in (store.findings.rows(run.id, ids) if run else {}).items():
                rows.append((project, key, names.get(key), row, decisions.get(key)))
    return render_template("person.html", wanted=wanted, rows=rows)


@bp.get(f"/projects/<{ID}:project_id>/handout")
def handout(project_id: int) -> str:
    """A page for the person concerned: their own numbers, what these mean and do not mean, nobody else's name."""
    store = get_store()
    found, key = store.projects.get(project_id), argument("id")
    known = store.annotators.get(project_id, [key]).get(key)
    if known is None:
        raise NotFoundError(f"project {project_id} has no annotator {key[:60]!r}; its page lists them")
    run = chosen_run(found)
    return render_template(
        "handout.html",
        project=found,
        run=run,
        person=known,
        row=store.findings.get(run.id, key) if run else None,
        work=_work(found, [key]).people.get(key),
    )


@bp.post(f"/projects/<{ID}:project_id>/teams")
@access("owner")
def teams(project_id: int) -> Response:
    """Read a CSV of annotator (id, address or name) and team; who is not named keeps theirs."""
    store, sent = get_store(), request.files.get("teams")
    text = sent.read(5_000_000).decode("utf-8-sig", "replace") if sent else ""
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text)) if any(row)]
    if not rows or any(len(row) < 2 for row in rows):
        raise PayloadError("the file holds no two columns; expected a CSV with an annotator and a team in each line")
    keys: dict[str, str] = {}
    for key, one in store.annotators.get(project_id).items():
        keys |= {word.lower(): key for word in (one.name, one.email, key) if word}
    named = {keys[row[0].lower()]: row[1][:200] or None for row in rows if row[0].lower() in keys}
    if not named:
        raise PayloadError(f"nobody of the file is known here, such as {rows[-1][0][:60]!r}; expected ids or addresses")
    store.annotators.set_teams(project_id, named)
    unknown = len(rows) - sum(row[0].lower() in keys for row in rows)
    flash(f"{len(named)} annotators have a team now; {unknown} lines named nobody of this project.")
    return redirect(url_for("dashboard.settings", project_id=project_id))
