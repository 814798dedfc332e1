"""`evenhand doctor`: what works, what does not, and the fix; or what a file of answers can be used for."""

from pathlib import Path

import click

from evenhand.commands._failures import exits_2_on_bad_input, says_what_is_wrong
from evenhand.terminal import printable


@click.command("doctor")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@exits_2_on_bad_input
def doctor(file: Path | None) -> None:
    """
    Check the service, or with FILE say what a file of answers can be used for.

    Without FILE: address, token, Label Studio's address filters, webhooks, clock and database; exit 1 if one fails.
    With FILE (- for standard input): the format recognised, what each column is used for, what the data supports and
    what it does not, and what would help; exit 1 if it cannot be judged at all.
    """
    if file is not None:
        from evenhand.commands._examination import print_examination

        if not print_examination(file):
            raise SystemExit(1)
        return
    says_what_is_wrong(_examine_service)()


def _examine_service() -> None:
    from evenhand.commands._service import open_service
    from evenhand.label_studio.doctor import examine

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
