"""`evenhand doctor`: what works, what does not, and the fix."""

import click

from backend.commands._label_studio import open_service, says_what_is_wrong
from backend.doctor import examine
from backend.terminal import printable


@click.command("doctor")
@says_what_is_wrong
def doctor() -> None:
    """Check address, token, Label Studio's address filters, webhooks, clock and database; exit 1 if one fails."""
    with open_service() as service:
        findings = examine(service.settings, service.store, service.client)
    for finding in findings:
        mark = click.style("ok  ", fg="green") if finding.ok else click.style("FAIL", fg="red", bold=True)
        click.echo(f"{mark} {finding.check}: {printable(finding.seen)}")
        if finding.fix:
            click.echo(f"       fix: {finding.fix}")
    failed = sum(not finding.ok for finding in findings)
    click.echo(f"{len(findings) - failed} of {len(findings)} checks are well")
    if failed:
        raise SystemExit(1)
