"""Commands for whoever runs the service: serve, worker, settings, status, backup, restore."""

import os
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from evenhand.commands._service import open_data, says_what_is_wrong
from evenhand.errors import UnusableValueError
from evenhand.logs import configure_logging
from evenhand.private_files import write_private
from evenhand.projects.overview import overview
from evenhand.server.supervisor import at_socket, refuse_open_doors, refuse_taken_port, stop_on_signals
from evenhand.server.supervisor import serve as supervise
from evenhand.settings import TABLE, Settings, lookup
from evenhand.store import open_store
from evenhand.store.backup import read_manifest, write_backup
from evenhand.store.backup import restore as put_back
from evenhand.store.engine import open_engine
from evenhand.store.runs import moves
from evenhand.web.passwords import open_link
from fdr_core.report.words import duration, plural
from fdr_core.terminal import Failure, json_option, printable, say_json

UP_SECONDS = 30.0


@click.command("serve")
@click.option("--host", help="Address to listen on [HOST].")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on [PORT].")
@click.option("--fd", type=click.IntRange(min=3), help="Listen on this open socket, handed over by who starts us.")
@click.option("--no-worker", is_flag=True, help="Only the web server; run `evenhand worker` elsewhere.")
@says_what_is_wrong
def serve(host: str | None, port: int | None, fd: int | None, no_worker: bool) -> None:
    """Run the service: the web server and the worker, until Ctrl-C or SIGTERM.

    \b
    Examples:
      evenhand serve
      evenhand serve --host 0.0.0.0 --port 9091 --no-worker
    """
    settings = Settings.from_env(os.environ)
    settings = replace(settings, host=host or settings.host, port=port or settings.port)
    if fd is None:
        refuse_taken_port(settings)
    else:
        settings = at_socket(settings, fd)
    configure_logging(settings.log_level, settings.secrets())
    with closing(open_store(settings)) as store:
        refuse_open_doors(settings, store)
        is_open = not settings.has_credentials and not store.users.exist()
        link = open_link(settings, store) if is_open else ""
    click.echo(f"Evenhand listens on http://{settings.host}:{settings.port}", err=True)
    if link:
        click.echo(f"Open {link} (for you alone: it lets in whoever has it)", err=True)
        if sys.stdout.isatty() and has_screen(os.environ):
            threading.Thread(target=open_when_up, args=(settings, link), daemon=True).start()
    supervise(settings, with_worker=not no_worker, stop=stop_on_signals(), fd=fd)


def has_screen(environ: Mapping[str, str]) -> bool:
    """Whether a browser can show itself: one in the terminal would take the terminal away."""
    return sys.platform in ("darwin", "win32") or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def open_when_up(settings: Settings, link: str) -> None:
    """Open the link in a browser as soon as the service answers."""
    until = time.monotonic() + UP_SECONDS
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection((settings.host, settings.port), timeout=1.0):
            webbrowser.open(link)
            return
        time.sleep(0.2)


@click.command("worker")
@click.option("--check", is_flag=True, help="Only tell whether a worker moved within a minute, by the exit code.")
@says_what_is_wrong
def worker(check: bool) -> None:
    """Run the worker alone: pulls, runs, publishing; several may share one PostgreSQL.

    \b
    Examples:
      evenhand worker
      evenhand worker --check
    """
    if check:
        with open_data() as (_, store):
            signs = store.leases.signs()
        if not moves(signs):
            raise Failure("no worker moved within a minute; its log says more")
        click.echo("A worker moves.")
        return
    os.nice(10)  # events are answered first
    # Imported here: the worker loads the numerics, which `evenhand worker --help` does not need.
    from evenhand.server.worker import run_worker

    settings = Settings.from_env(os.environ)
    configure_logging(settings.log_level, settings.secrets())
    run_worker(settings, stop_on_signals())


@click.command("settings")
@json_option
@says_what_is_wrong
def settings(as_json: bool) -> None:
    """Print all settings; secrets are hidden.

    \b
    Examples:
      evenhand settings
      evenhand settings --json
    """
    Settings.from_env(os.environ)
    shown = {
        setting.name: "(set, hidden)" if setting.secret and value else value or ""
        for setting in TABLE
        for value in [lookup(setting, os.environ)]
    }
    if as_json:
        say_json(shown)
        return
    for setting in TABLE:
        click.echo(f"{setting.name} = {shown[setting.name] or '(empty)'}")
        click.echo(f"    {setting.help} Default: {setting.default or 'empty'}.")


@click.command("status")
@json_option
@says_what_is_wrong
def status(as_json: bool) -> None:
    """Show projects, last events and pulls, the queue, and open problems with what to do.

    \b
    Examples:
      evenhand status
      evenhand status --json
    """
    with open_data() as (settings, store):
        found = overview(store)
        is_open = not settings.has_credentials and not store.users.exist()
        link = open_link(settings, store) if is_open and not as_json else ""
    if as_json:
        say_json(found)
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


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@json_option
@says_what_is_wrong
def backup(file: Path, force: bool, as_json: bool) -> None:
    """Write everything in the database to FILE, as of one moment; the service may run meanwhile.

    The file restores into SQLite and PostgreSQL alike. It holds personal data, password hashes and the key of the
    sessions: keep it as safe as the database.

    \b
    Examples:
      evenhand backup evenhand.backup
      evenhand backup evenhand.backup --force --json
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
    if as_json:
        say_json({"file": file, "rows": manifest.rows, "tables": len(manifest.parts), "bytes": file.stat().st_size})
        return
    megabytes, seconds = file.stat().st_size / 1e6, time.monotonic() - started
    click.echo(f"{file}: {manifest.rows:,} rows of {len(manifest.parts)} tables, {megabytes:.1f} MB, {seconds:.1f} s")


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Overwrite a database that holds projects or accounts.")
@click.option("--check", is_flag=True, help="Only check that FILE is whole and of a version this program knows.")
@says_what_is_wrong
def restore(file: Path, replace: bool, check: bool) -> None:
    """Put FILE, made by `evenhand backup`, in the place of the database; stop the service first.

    Either all of it is restored or nothing is changed.

    \b
    Examples:
      evenhand restore evenhand.backup --check
      evenhand restore evenhand.backup --replace
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
