"""Commands about people: who may log in, and what is stored about one annotator."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from evenhand.administer.privacy import ErasureReport, erase_person, export_person, find_person
from evenhand.commands._service import open_data, open_service, says_what_is_wrong
from evenhand.domain import ROLES, Role, normal_name
from evenhand.errors import UnusableValueError
from evenhand.json_values import MAX_ID
from evenhand.private_files import write_private
from evenhand.settings import Settings
from evenhand.store import open_store
from evenhand.store.engine import to_json
from evenhand.web.passwords import hash_password
from fdr_core.report.words import plural
from fdr_core.terminal import json_option, printable, say_json

SHORTEST_PASSWORD = 10
NOBODY = "nobody"


@click.group("users")
def users() -> None:
    """Manage the people who may log in.

    \b
    Examples:
      evenhand users add ana --role reviewer
      evenhand users list
    """


@users.command("add")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    help="protocol: Label Studio's calls; reader: see results; reviewer: also decide and start runs; owner: also "
    "change settings. New accounts: reader; others keep theirs.",
)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of asking.")
@says_what_is_wrong
def add(name: str, role: Role | None, password_stdin: bool) -> None:
    """
    Add the account NAME, or change its password and role.

    \b
    Examples:
      evenhand users add ana --role reviewer
      evenhand users add ana --password-stdin < password.txt
    """
    settings = Settings.from_env(os.environ)
    name = normal_name(name)
    if not name or len(name) > 100 or ":" in name or not name.isprintable():
        raise UnusableValueError(f"{name[:40]!r} is not a user name; use 1 to 100 printable characters without a colon")
    if name == normal_name(settings.basic_auth_user):
        raise UnusableValueError(f"{name!r} is BASIC_AUTH_USER; its password is BASIC_AUTH_PASS, choose another name")
    if password_stdin:
        password = sys.stdin.readline().rstrip("\n")
    elif not sys.stdin.isatty():
        raise UnusableValueError("there is no terminal to ask for the password; pipe it in and add --password-stdin")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    if len(password) < SHORTEST_PASSWORD:
        raise UnusableValueError(f"the password has {len(password)} characters; use at least {SHORTEST_PASSWORD}")
    store = open_store(settings)
    try:
        store.users.put(name, hash_password(password), role)
        account = store.users.get(name)
    finally:
        store.close()
    click.echo(f"Account {name} can log in now, as {account.role if account else role}.")


@users.command("list")
@json_option
@says_what_is_wrong
def list_(as_json: bool) -> None:
    """List all accounts.

    \b
    Examples:
      evenhand users list
      evenhand users list --json
    """
    with open_data() as (settings, store):
        accounts = store.users.all()
    if as_json:
        named = (
            [{"name": settings.basic_auth_user, "role": settings.basic_auth_role}] if settings.basic_auth_user else []
        )
        say_json(named + [{"name": one.name, "role": one.role, "label_studio_user": one.ls_user} for one in accounts])
        return
    if settings.basic_auth_user:
        click.echo(f"{settings.basic_auth_user}: {settings.basic_auth_role} (BASIC_AUTH_USER)")
    for account in accounts:
        who = (
            "" if account.ls_user is None else f", {account.ls_user or NOBODY} in Label Studio (by {account.linked_by})"
        )
        click.echo(f"{account.name}: {account.role}{who}")


@users.command("link")
@click.argument("name")
@click.argument("user")
@says_what_is_wrong
def link(name: str, user: str) -> None:
    """Say that the account NAME is the user with the id USER in Label Studio, or 'nobody' there.

    \b
    Examples:
      evenhand users link ana 17
      evenhand users link root nobody
    """
    if user != NOBODY and not (user.isdecimal() and user.isascii() and 0 < int(user) <= MAX_ID):
        raise UnusableValueError(f"{user[:40]!r} is no user id of Label Studio; give a number, or {NOBODY!r}")
    with open_data() as (settings, store):
        who = "" if user == NOBODY else str(int(user))
        store.users.link(name, settings.label_studio_url, who, by="evenhand users link")
    click.echo(f"Account {name} is {user} in Label Studio, and does not decide about itself.")


@users.command("remove")
@click.argument("name")
@says_what_is_wrong
def remove(name: str) -> None:
    """Remove the account NAME; its sessions end at once, its decisions stay.

    \b
    Examples:
      evenhand users remove ana
      evenhand users remove "Ana Berg"
    """
    with open_data() as (_, store):
        store.users.delete(name)
    click.echo(f"Account {name} has been removed.")


def _label_studio(command: Any) -> Any:
    """Add the option that tells two Label Studios apart."""
    return click.option("--label-studio", "url", metavar="URL", help="Which Label Studio, if several are known.")(
        command
    )


@click.group("annotator")
def annotator() -> None:
    """Hand out or erase what is stored about one annotator.

    \b
    Examples:
      evenhand annotator export 17 --out annotator-17.json
      evenhand annotator erase 17
    """


@annotator.command("export")
@click.argument("person", metavar="ID")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write; without it, print.")
@_label_studio
@says_what_is_wrong
def export(person: str, out: Path | None, url: str | None) -> None:
    """Write everything about ID (a Label Studio user id or e-mail address) as JSON.

    \b
    Examples:
      evenhand annotator export 17
      evenhand annotator export ana@example.com --out ana.json
    """
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

    \b
    Examples:
      evenhand annotator erase 17
      evenhand annotator erase ana@example.com --yes
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
    """Let the erased user ID's answers in again; the next pull brings what Label Studio still holds.

    \b
    Examples:
      evenhand annotator readmit 17
      evenhand annotator readmit 17 --label-studio http://localhost:8080
    """
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
