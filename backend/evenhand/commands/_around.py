"""`evenhand doctor` without a file: what the service says of itself."""

import click

from fdr_core.terminal import printable


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
