"""`evenhand backup`: the whole database in one file, while the service runs."""

import os
import time
from pathlib import Path

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.errors import UnusableValueError
from evenhand.private_files import write_private
from evenhand.settings import Settings
from evenhand.store.backup import write_backup
from evenhand.store.engine import open_engine


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@says_what_is_wrong
def backup(file: Path, force: bool) -> None:
    """Write everything in the database to FILE, as of one moment; the service may run meanwhile.

    The file restores into SQLite and PostgreSQL alike. It holds personal data, password hashes and the key of the
    sessions: keep it as safe as the database.
    """
    if file.exists() and not force:
        raise UnusableValueError(f"{file} exists; choose another name, or add --force to overwrite it")
    settings = Settings.from_env(os.environ)
    started = time.monotonic()
    engine = open_engine(settings.database_url, pool_size=1)
    try:
        with write_private(file) as sink:
            manifest = write_backup(engine, sink)
    finally:
        engine.dispose()
    megabytes, seconds = file.stat().st_size / 1e6, time.monotonic() - started
    click.echo(f"{file}: {manifest.rows:,} rows of {len(manifest.parts)} tables, {megabytes:.1f} MB, {seconds:.1f} s")
