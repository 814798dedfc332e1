"""`evenhand status`: projects, events, queue and problems at a glance."""

import json
from datetime import UTC, datetime
from typing import Any

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.commands._service import open_data
from evenhand.projects.overview import overview
from evenhand.web.session_key import open_link
from fdr_core.report.words import duration, plural
from fdr_core.terminal import printable


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@says_what_is_wrong
def status(as_json: bool) -> None:
    """Show projects, last events and pulls, the queue, and open problems with their remedies."""
    with open_data() as (settings, store):
        found = overview(store)
        is_open = not settings.has_credentials and not store.users.exist()
        link = open_link(settings, store) if is_open and not as_json else ""
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    _print(found)
    if link:
        click.echo(f"Pages: {link}")


def _print(found: dict[str, Any]) -> None:
    """The overview in words."""
    if not found["projects"]:
        click.echo("No projects yet: `evenhand connect PROJECT` connects one of Label Studio.")
    for project in found["projects"]:
        counts = project["counts"]
        click.echo(f"Project {project['ls_project_id']}: {printable(project['title'])}")
        click.echo(
            f"  {plural(counts.get('judged', 0), 'answer')} judged, {plural(project['flagged'], 'lasting flag')}, "
            f"{plural(project['warned'], 'early warning')}"
        )
        click.echo(f"  last event {_when(project['last_event_at'])}, last pull {_when(project['last_pull_at'])}")
        run = (
            f"run {project['latest_run']} finished {_when(project['finished_at'])}"
            if project["latest_run"]
            else "no run yet"
        )
        click.echo(f"  {run}")
    if found["queue_age_seconds"]:
        click.echo(f"A run has been waiting for {duration(found['queue_age_seconds'])}.")
    for row in found["events"]:
        click.echo(f"Events {row['kind']}, {row['outcome']}: {row['count']:,}, the last {_when(row['last_at'])}")
    names = {p["id"]: f"project {p['ls_project_id']} ({printable(p['title'])})" for p in found["projects"]}
    for problem in found["problems"]:
        where = names.get(problem["project_id"], "service")
        times = "" if problem["count"] == 1 else f" (seen {problem['count']:,} times)"
        click.secho(f"Problem, {where}: {printable(problem['message'])}{times}", fg="yellow")
        click.echo(f"  What to do: {problem['remedy']}")


def _when(seconds: float | None) -> str:
    """A time people can read."""
    return "never" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
