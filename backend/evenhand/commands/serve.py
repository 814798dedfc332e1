"""`evenhand serve`: web and worker in one command."""

import os
from dataclasses import replace

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.logs import configure_logging
from evenhand.server.supervisor import at_socket, refuse_open_doors, refuse_taken_port, stop_on_signals
from evenhand.server.supervisor import serve as supervise
from evenhand.settings import Settings
from evenhand.store import open_store


@click.command("serve")
@click.option("--host", help="Address to listen on [HOST].")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on [PORT].")
@click.option("--fd", type=click.IntRange(min=3), help="Listen on this open socket, handed over by who starts us.")
@click.option("--no-worker", is_flag=True, help="Only the web server; run `evenhand worker` elsewhere.")
@says_what_is_wrong
def serve(host: str | None, port: int | None, fd: int | None, no_worker: bool) -> None:
    """Run the service: the web server and the worker, until Ctrl-C or SIGTERM."""
    settings = Settings.from_env(os.environ)
    settings = replace(settings, host=host or settings.host, port=port or settings.port)
    if fd is None:
        refuse_taken_port(settings)
    else:
        settings = at_socket(settings, fd)
    configure_logging(settings.log_level, settings.secrets())
    store = open_store(settings)
    try:
        refuse_open_doors(settings, store)
    finally:
        store.close()
    click.echo(f"Evenhand listens on http://{settings.host}:{settings.port}", err=True)
    supervise(settings, with_worker=not no_worker, stop=stop_on_signals(), fd=fd)
