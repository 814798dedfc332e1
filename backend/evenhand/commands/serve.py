"""`evenhand serve`: web and worker in one command."""

import os
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.logs import configure_logging
from evenhand.server.supervisor import at_socket, refuse_open_doors, refuse_taken_port, stop_on_signals
from evenhand.server.supervisor import serve as supervise
from evenhand.settings import Settings
from evenhand.store import open_store
from evenhand.web.session_key import open_link

UP_SECONDS = 30.0


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
