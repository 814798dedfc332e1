"""`evenhand run`: ask for a run now."""

import os
import time

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.commands._service import open_data
from evenhand.domain import Trigger
from evenhand.projects.find import project_named
from evenhand.store import Store

POLL_SECONDS = 0.25


@click.command("run")
@click.argument("project", type=click.IntRange(min=1))
@click.option("--wait", is_flag=True, help="Wait until the run has ended; exit 1 if it failed.")
@click.option("--timeout", type=click.FloatRange(min=0), default=600.0, show_default=True, help="Seconds to wait.")
@says_what_is_wrong
def run(project: int, wait: bool, timeout: float) -> None:
    """Ask the worker for a run of PROJECT (its id in Label Studio)."""
    with open_data() as (settings, store):
        found = project_named(store, settings.label_studio_url, project)
        made = store.runs.request(found.id, Trigger.MANUAL, os.environ.get("USER") or "command line")
        click.echo(f"Run {made.id} of project {project} is {made.status}.")
        if wait:
            _wait(store, made.id, timeout)


def _wait(store: Store, run_id: int, timeout: float) -> None:
    """Show progress until the run has ended."""
    deadline, shown = time.monotonic() + timeout, None
    while time.monotonic() < deadline:
        current = store.runs.get(run_id)
        if current.status == "done":
            click.echo(f"Run {run_id} is done: {current.guarantee}")
            return
        if current.status == "failed":
            raise click.ClickException(f"run {run_id} failed: {current.error}")
        state = (current.status, current.progress_note)
        if state != shown:
            click.echo(f"  {current.status} {(current.progress or 0.0):.0%} {current.progress_note or ''}".rstrip())
            shown = state
        time.sleep(POLL_SECONDS)
    raise click.ClickException(
        f"run {run_id} has not ended after {timeout:g} s; is a worker running? `evenhand worker` starts one"
    )
