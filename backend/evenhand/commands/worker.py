"""`evenhand worker`: the worker alone, also on other machines."""

import os

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.commands._service import open_data
from evenhand.logs import configure_logging
from evenhand.server.supervisor import stop_on_signals
from evenhand.settings import Settings
from evenhand.store.runs import moves
from fdr_core.terminal import Failure


@click.command("worker")
@click.option("--check", is_flag=True, help="Only tell whether a worker moved within a minute, by the exit code.")
@says_what_is_wrong
def worker(check: bool) -> None:
    """Run the worker alone: pulls, runs, publishing; several may share one PostgreSQL."""
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
