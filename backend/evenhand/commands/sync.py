"""`evenhand sync`: pulls projects from Label Studio now."""

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.commands._service import Service, open_service
from evenhand.domain import Kind, Project
from evenhand.ingest.pull import pull_project
from evenhand.projects.find import project_named
from fdr_core.report.words import plural
from fdr_core.terminal import printable

KINDS: tuple[Kind, ...] = ("comparison", "alerts")


@click.command("sync")
@click.argument("project", type=click.IntRange(min=1), required=False)
@click.option("--full", is_flag=True, help="Read everything, not only what changed.")
@says_what_is_wrong
def sync(project: int | None, full: bool) -> None:
    """Pull PROJECT (its id in Label Studio), or all connected ones, and say what was repaired."""
    with open_service(creates=False) as service:
        client = service.need_client()
        chosen = _chosen(service, project)
        if not chosen:
            raise click.ClickException("no project is connected; `evenhand connect PROJECT` connects one")
        for entry in chosen:
            report = pull_project(service.store, client, entry, full=full)
            kind = "full" if report.full else "incremental"
            click.echo(
                f"Project {entry.ls_project_id} ({printable(entry.title)}): {kind} pull of "
                f"{plural(report.tasks, 'task')} in {report.seconds:.1f} s. Answers: {report.added:,} added, "
                f"{report.updated:,} changed, {report.revived:,} revived, {report.removed:,} removed; "
                f"{plural(report.decisions, 'decision')}."
            )


def _chosen(service: Service, project: int | None) -> list[Project]:
    """The projects of the configured Label Studio, or the one asked for with its alerts."""
    mine = [p for p in service.store.projects.all(kinds=KINDS) if p.ls_url == service.settings.label_studio_url]
    if project is None:
        return mine
    found = project_named(service.store, service.settings.label_studio_url, project)
    return [p for p in mine if found.id in (p.id, p.alerts_for)]
