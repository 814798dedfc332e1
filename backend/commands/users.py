"""`evenhand users`: named accounts for the dashboard and the API."""

import os
import sys

import click

from backend.commands._label_studio import says_what_is_wrong
from backend.errors import ConfigurationError
from backend.settings import Settings
from backend.store import open_store
from backend.web.auth import hash_password

SHORTEST_PASSWORD = 10


@click.group("users")
def users() -> None:
    """Manage the people who may log in."""


@users.command("add")
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of asking.")
@says_what_is_wrong
def add(name: str, password_stdin: bool) -> None:
    """Add the account NAME, or change its password."""
    settings = Settings.from_env(os.environ)
    if not name.strip() or len(name) > 100 or ":" in name or not name.isprintable():
        raise ConfigurationError(f"{name[:40]!r} is no user name; use 1 to 100 printable characters without a colon")
    if name == settings.basic_auth_user:
        raise ConfigurationError(f"{name!r} is BASIC_AUTH_USER; its password is BASIC_AUTH_PASS, choose another name")
    if password_stdin:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    if len(password) < SHORTEST_PASSWORD:
        raise ConfigurationError(f"the password has {len(password)} characters; use at least {SHORTEST_PASSWORD}")
    store = open_store(settings)
    try:
        store.put_user(name, hash_password(password))
    finally:
        store.close()
    click.echo(f"Account {name} can log in now.")


@users.command("list")
@says_what_is_wrong
def list_() -> None:
    """List all accounts."""
    settings = Settings.from_env(os.environ)
    store = open_store(settings)
    try:
        names = store.list_users()
    finally:
        store.close()
    if settings.basic_auth_user:
        click.echo(f"{settings.basic_auth_user} (BASIC_AUTH_USER)")
    for name in names:
        click.echo(name)


@users.command("remove")
@click.argument("name")
@says_what_is_wrong
def remove(name: str) -> None:
    """Remove the account NAME; its sessions end at once, its decisions stay."""
    store = open_store(Settings.from_env(os.environ))
    try:
        store.delete_user(name)
    finally:
        store.close()
    click.echo(f"Account {name} is removed.")
