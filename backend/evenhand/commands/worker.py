"""`evenhand worker`: the worker alone, also on other machines."""

import os

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.logs import configure_logging
from evenhand.server.supervisor import stop_on_signals
from evenhand.settings import Settings


@click.command("worker")
@says_what_is_wrong
def worker() -> None:
    """Run the worker alone: pulls, runs, publishing; several may share one PostgreSQL."""
    os.nice(10)  # events are answered first
    # Imported here: the worker loads the numerics, which `evenhand worker --help` does not need.
    from evenhand.server.worker import run_worker

    settings = Settings.from_env(os.environ)
    configure_logging(settings.log_level, settings.secrets())
    run_worker(settings, stop_on_signals())
