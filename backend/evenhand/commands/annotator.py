"""`evenhand annotator`: everything about one annotator, and its erasure."""

import json
from pathlib import Path
from typing import Any

import click

from evenhand.administer.privacy import ErasureReport, erase_person, export_person, find_person
from evenhand.commands._service import open_service, says_what_is_wrong
from evenhand.private_files import write_private
from evenhand.store.engine import to_json
from fdr_core.report.words import plural
from fdr_core.terminal import printable


def _label_studio(command: Any) -> Any:
    """Add the option that tells two Label Studios apart."""
    return click.option("--label-studio", "url", metavar="URL", help="Which Label Studio, if several are known.")(
        command
    )


@click.group("annotator")
def annotator() -> None:
    """Hand out or erase what is stored about one annotator."""


@annotator.command("export")
@click.argument("person", metavar="ID")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write; without it, print.")
@_label_studio
@says_what_is_wrong
def export(person: str, out: Path | None, url: str | None) -> None:
    """Write everything about ID (a Label Studio user id or e-mail address) as JSON."""
    with open_service(creates=False) as service:
        document = export_person(service.store, find_person(service.store, person, url))
    text = json.dumps(json.loads(to_json(document)), indent=1, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    with write_private(out) as file:
        file.write(text.encode("utf-8", "replace"))
    click.echo(
        f"{out}: {plural(len(document['projects']), 'project')}. The file holds personal data; only you can read it."
    )


@annotator.command("erase")
@click.argument("person", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_label_studio
@says_what_is_wrong
def erase(person: str, yes: bool, url: str | None) -> None:
    """Erase ID (a Label Studio user id or e-mail address) everywhere; results follow with the next run.

    Answers that Label Studio still holds, or sends later, are not taken in again; `evenhand annotator readmit` lifts
    that.
    """
    with open_service(creates=False) as service:
        found = find_person(service.store, person, url)
        document = export_person(service.store, found)
        names = printable(", ".join(sorted(found.names)) or "no name")
        click.echo(f"Label Studio user {printable(', '.join(sorted(found.ids)))} ({names}):")
        for project in document["projects"]:
            counts = ((name, len(rows)) for name, rows in project.items() if isinstance(rows, list) and rows)
            click.echo(f"  project {project['id']}: " + ", ".join(f"{number} {name}" for name, number in counts))
        if not yes:
            click.confirm("Erase all of it? This cannot be undone", abort=True)
        _print(erase_person(service.store, service.client, found, service.settings))


@annotator.command("readmit")
@click.argument("person", metavar="ID")
@click.option("--label-studio", "url", metavar="URL", help="Which Label Studio; by default the configured one.")
@says_what_is_wrong
def readmit(person: str, url: str | None) -> None:
    """Let the erased user ID's answers in again; the next pull brings what Label Studio still holds."""
    with open_service(creates=False) as service:
        place = url if url is not None else service.settings.label_studio_url
        if not service.store.people.readmit(place, person):
            raise click.ClickException(f"nobody with the user id {person!r} was erased at {place or 'no address'!r}")
    click.echo(f"From the next pull on, the answers of user {person} are taken in again.")


def _print(report: ErasureReport) -> None:
    """What was done, and what remains for people to do."""
    for project, tally in report.erased.items():
        click.echo(f"Erased in project {project}: " + ", ".join(f"{number} {name}" for name, number in tally.items()))
    for place in report.withdrawn:
        click.echo(f"Withdrawn: {printable(place)}")
    click.echo("The next run leaves this person out. What remains to be done by hand:")
    for place in report.by_hand:
        click.echo(f"  {printable(place)}")
