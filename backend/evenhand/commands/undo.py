"""`evenhand undo`: what followed confirmed flags, and taking it back."""

from datetime import UTC, datetime

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.commands._service import open_service
from evenhand.errors import NotFoundError
from evenhand.projects.find import project_named
from evenhand.publish.follow_up import undo_follow_up
from fdr_core.report.words import plural


@click.command("undo")
@click.argument("project", type=click.IntRange(min=1))
@click.argument("number", type=click.IntRange(min=1), required=False)
@says_what_is_wrong
def undo(project: int, number: int | None) -> None:
    """
    List what followed confirmed flags in PROJECT (its id in Label Studio), or take NUMBER of that list back.

    Answers that people gave meanwhile are never deleted.
    """
    with open_service(creates=False) as service:
        found = project_named(service.store, service.settings.label_studio_url, project)
        rows = service.store.follow_ups.all(found.id)
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
