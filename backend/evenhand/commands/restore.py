"""`evenhand restore`: puts a backup in the place of the database."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.settings import Settings
from evenhand.store.backup import read_manifest
from evenhand.store.backup import restore as put_back


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Overwrite a database that holds projects or accounts.")
@click.option("--check", is_flag=True, help="Only check that FILE is whole and of a version this program knows.")
@says_what_is_wrong
def restore(file: Path, replace: bool, check: bool) -> None:
    """Put FILE, made by `evenhand backup`, in the place of the database; stop the service first.

    Either all of it is restored or nothing is changed.
    """
    started = time.monotonic()
    notes: list[str] = []
    if check:
        manifest = read_manifest(file)
    else:
        manifest, notes = put_back(Settings.from_env(os.environ).database_url, file, replace=replace)
    when = datetime.fromtimestamp(manifest.created_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    done = "is whole" if check else "is restored"
    click.echo(f"{file} of {when} {done}: {manifest.rows:,} rows, {time.monotonic() - started:.1f} s")
    for note in notes:
        click.secho(f"Note: {note}", fg="yellow")
    if not check:
        click.echo(
            "Start the service; the next pull brings in what has happened since. "
            "Anybody erased after the backup was made has to be erased again."
        )
