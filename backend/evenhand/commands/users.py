"""`evenhand users`: named accounts for the dashboard and the API."""

import os
import sys

import click

from evenhand.commands._service import open_data, says_what_is_wrong
from evenhand.domain import ROLES, Role, normal_name
from evenhand.errors import UnusableValueError
from evenhand.json_values import MAX_ID
from evenhand.settings import Settings
from evenhand.store import open_store
from evenhand.web.passwords import hash_password

SHORTEST_PASSWORD = 10
NOBODY = "nobody"


@click.group("users")
def users() -> None:
    """Manage the people who may log in."""


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
    """Add the account NAME, or change its password and role."""
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
@says_what_is_wrong
def list_() -> None:
    """List all accounts."""
    with open_data() as (settings, store):
        accounts = store.users.all()
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
    """Say that the account NAME is the user with the id USER in Label Studio, or 'nobody' there."""
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
    """Remove the account NAME; its sessions end at once, its decisions stay."""
    with open_data() as (_, store):
        store.users.delete(name)
    click.echo(f"Account {name} has been removed.")
