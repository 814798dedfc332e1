"""What the service adds to the library's commands: its projects for `analyze`, its own checks for `doctor`."""

import os
from typing import TYPE_CHECKING

import click

from fdr_core.commands import Service
from fdr_core.terminal import BadInput, printable

if TYPE_CHECKING:
    from fdr_core.commands._archives import Summed


def sum_project(project: int) -> "Summed":
    """Sum the answers of a project in the service's PostgreSQL."""
    from evenhand.errors import BackendError
    from evenhand.runs import stored_sums
    from evenhand.settings import Settings

    try:
        return stored_sums.sum_project(Settings.from_env(os.environ), project)
    except BackendError as error:
        raise BadInput(str(error)) from error


def examine_service() -> None:
    """Print what works, what does not, and the fix."""
    from evenhand.commands._failures import says_what_is_wrong

    says_what_is_wrong(_examine)()


def _examine() -> None:
    from evenhand.administer.doctor import examine
    from evenhand.commands._service import open_service

    with open_service() as service:
        checks = examine(service.settings, service.store, service.client)
    for check in checks:
        mark = click.style("ok  ", fg="green") if check.ok else click.style("FAIL", fg="red", bold=True)
        click.echo(f"{mark} {check.check}: {printable(check.seen)}")
        if check.fix:
            click.echo(f"       fix: {check.fix}")
    failed = sum(not check.ok for check in checks)
    click.echo(f"{len(checks) - failed} of {len(checks)} checks are fine")
    if failed:
        raise SystemExit(1)


SERVICE = Service(sum_project, examine_service)
