"""Commands on one connected project: disconnect, sync, run, undo, report."""

import os
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from evenhand.administer.disconnect import disconnect_project
from evenhand.commands._service import Service, open_data, open_service, says_what_is_wrong
from evenhand.domain import Kind, Project, Trigger
from evenhand.errors import NotFoundError
from evenhand.ingest.pull import pull_project
from evenhand.projects.overview import project_named
from evenhand.publish.follow_up import undo_follow_up
from evenhand.runs.report import progress_words, report_of_run
from evenhand.store import Store
from fdr_core.report import pseudonymised, write_report
from fdr_core.report.words import plural
from fdr_core.terminal import json_option, printable, say_json, with_parent


@click.command("disconnect")
@click.argument("project", type=click.IntRange(min=1))
@click.option("--alerts", is_flag=True, help="Delete the alerts project with its cards too.")
@click.option(
    "--erase", is_flag=True, help="Erase everything stored about the project here; of decisions only their seals stay."
)
@click.option("--yes", is_flag=True, help="Ask nothing.")
@says_what_is_wrong
def disconnect(project: int, alerts: bool, erase: bool, yes: bool) -> None:
    """
    Disconnect the Label Studio project with the id PROJECT from this service.

    Removes our webhook, ML backend, tabs and predictions there. What is stored here is kept, unless
    --erase is given; `evenhand connect` takes the project up again.

    \b
    Examples:
      evenhand disconnect 1
      evenhand disconnect 1 --alerts --erase --yes
    """
    with open_service(creates=False) as service:
        client = service.need_client()
        found = project_named(service.store, service.settings.label_studio_url, project)
        what = "erase all that is stored about it" if erase else "keep what is stored about it"
        if not yes:
            click.confirm(f"Disconnect project {project} ({printable(found.title)}) and {what}?", abort=True)
        done = disconnect_project(service.store, client, service.settings, found, with_alerts=alerts, erase=erase)
    click.echo(f"Disconnected project {project} ({printable(found.title)}).")
    click.echo(
        f"  removed there: {plural(done.webhooks, 'webhook')}, {plural(done.backends, 'ML backend')}, "
        f"{plural(done.tabs, 'tab')}, {plural(done.predictions, 'prediction version')}, "
        f"{plural(done.alerts_projects, 'alerts project')}"
    )
    click.echo(f"  here: {f'{done.erased:,} rows erased' if erase else 'everything is kept'}")


KINDS: tuple[Kind, ...] = ("comparison", "alerts")


@click.command("sync")
@click.argument("project", type=click.IntRange(min=1), required=False)
@click.option("--full", is_flag=True, help="Read everything, not only what changed.")
@json_option
@says_what_is_wrong
def sync(project: int | None, full: bool, as_json: bool) -> None:
    """Pull PROJECT (its id in Label Studio), or all connected ones, and say what was repaired.

    \b
    Examples:
      evenhand sync
      evenhand sync 1 --full
    """
    with open_service(creates=False) as service:
        client = service.need_client()
        chosen = _chosen(service, project)
        if not chosen:
            raise click.ClickException("no project is connected; `evenhand connect PROJECT` connects one")
        done: list[dict[str, Any]] = []
        for entry in chosen:
            report = pull_project(service.store, client, entry, full=full)
            if as_json:
                done.append({"project": entry.ls_project_id, **asdict(report)})
                continue
            kind = "full" if report.full else "incremental"
            click.echo(
                f"Project {entry.ls_project_id} ({printable(entry.title)}): {kind} pull of "
                f"{plural(report.tasks, 'task')} in {report.seconds:.1f} s. Answers: {report.added:,} added, "
                f"{report.updated:,} changed, {report.revived:,} revived, {report.removed:,} removed; "
                f"{plural(report.decisions, 'decision')}."
            )
    if as_json:
        say_json(done)


def _chosen(service: Service, project: int | None) -> list[Project]:
    """The projects of the configured Label Studio, or the one asked for with its alerts."""
    mine = [p for p in service.store.projects.all(kinds=KINDS) if p.ls_url == service.settings.label_studio_url]
    if project is None:
        return mine
    found = project_named(service.store, service.settings.label_studio_url, project)
    return [p for p in mine if found.id in (p.id, p.alerts_for)]


POLL_SECONDS = 0.25


@click.command("run")
@click.argument("project", type=click.IntRange(min=1))
@click.option("--wait", is_flag=True, help="Wait until the run has ended; exit 1 if it failed.")
@click.option("--timeout", type=click.FloatRange(min=0), default=600.0, show_default=True, help="Seconds to wait.")
@json_option
@says_what_is_wrong
def run(project: int, wait: bool, timeout: float, as_json: bool) -> None:
    """Ask the worker for a run of PROJECT (its id in Label Studio).

    \b
    Examples:
      evenhand run 1
      evenhand run 1 --wait --timeout 60
    """
    with open_data() as (settings, store):
        found = project_named(store, settings.label_studio_url, project)
        made = store.runs.request(found.id, Trigger.MANUAL, os.environ.get("USER") or "command line")
        if not as_json:
            click.echo(f"Run {made.id} of project {project} is {made.status}.")
        if wait:
            _wait(store, made.id, timeout, is_quiet=as_json)
        if as_json:
            current = store.runs.get(made.id)
            say_json({"run": current.id, "project": project, "status": current.status, "guarantee": current.guarantee})


def _wait(store: Store, run_id: int, timeout: float, *, is_quiet: bool) -> None:
    """Show progress until the run has ended."""
    deadline, shown = time.monotonic() + timeout, None
    while time.monotonic() < deadline:
        current = store.runs.get(run_id)
        if current.status == "done":
            if not is_quiet:
                click.echo(f"Run {run_id} is done: {current.guarantee}")
            return
        if current.status == "failed":
            raise click.ClickException(f"run {run_id} failed: {current.error}")
        if current.progress_note != shown and not is_quiet:
            click.echo(f"  {(current.progress or 0.0):.0%} {progress_words(current, store.clock())}")
            shown = current.progress_note
        time.sleep(POLL_SECONDS)
    raise click.ClickException(
        f"run {run_id} has not ended after {timeout:g} s; is a worker running? `evenhand worker` starts one"
    )


@click.command("undo")
@click.argument("project", type=click.IntRange(min=1))
@click.argument("number", type=click.IntRange(min=1), required=False)
@json_option
@says_what_is_wrong
def undo(project: int, number: int | None, as_json: bool) -> None:
    """
    List what followed confirmed flags in PROJECT (its id in Label Studio), or take NUMBER of that list back.

    Answers that people gave meanwhile are never deleted.

    \b
    Examples:
      evenhand undo 1
      evenhand undo 1 2
    """
    with open_service(creates=False) as service:
        found = project_named(service.store, service.settings.label_studio_url, project)
        rows = service.store.follow_ups.all(found.id)
        if number is None and as_json:
            say_json(rows)
            return
        if number is None:
            for row in rows:
                at = datetime.fromtimestamp(row["made_at"], UTC).strftime("%Y-%m-%d %H:%M UTC")
                state = "undone" if row["undone_at"] else "done" if row["detail"].get("done") else "under way"
                tasks = plural(len(row["detail"]["tasks"]), "task")
                click.echo(f"{row['id']}: {at} {row['kind']}, {tasks} of annotator {row['annotator_id']}, {state}")
            if not rows:
                click.echo("Nothing has followed a confirmed flag yet.")
            return
        chosen = next((row for row in rows if row["id"] == number and not row["undone_at"]), None)
        if chosen is None:
            raise NotFoundError(
                f"project {project} has nothing numbered {number} to undo; `evenhand undo {project}` lists it"
            )
        click.echo(f"Undone: {undo_follow_up(service.store, service.need_client(), chosen)}.")


@click.command("report")
@click.argument("project", type=click.IntRange(min=1))
@click.option("--run", "run_id", type=click.IntRange(min=1), help="Which run [the latest finished one].")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder to write into.")
@click.option("--pseudonymise", is_flag=True, help="Number the annotators instead of naming them.")
@click.option("--title", help="Title of the report [the project's title].")
@says_what_is_wrong
def report(project: int, run_id: int | None, out: Path, pseudonymise: bool, title: str | None) -> None:
    """Write report.html, report.json, annotators.csv and ranking.csv of PROJECT (its id in Label Studio).

    \b
    Examples:
      evenhand report 1 --out report
      evenhand report 1 --run 3 --out report --pseudonymise
    """
    with open_service(creates=False) as service:
        store = service.store
        found = project_named(store, service.settings.label_studio_url, project)
        run = store.runs.get(run_id, project_id=found.id) if run_id else store.runs.latest(found.id)
        if run is None:
            raise NotFoundError(f"project {project} has no finished run yet; `evenhand run {project}` starts one")
        content = report_of_run(store, run, title=title)
    try:
        written = write_report(pseudonymised(content) if pseudonymise else content, with_parent(out))
    except OSError as error:
        raise click.ClickException(f"{error.filename or out} cannot be written: {error.strerror}") from error
    click.echo(f"Written: {', '.join(path.name for path in written[1:])}")
    click.echo(f"Open {written[0]}")
