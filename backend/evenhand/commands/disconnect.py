"""`evenhand disconnect`: lets a project go."""

import click

from evenhand.administer.disconnect import disconnect_project
from evenhand.commands._failures import says_what_is_wrong
from evenhand.commands._service import open_service
from evenhand.projects.find import project_named
from fdr_core.report.words import plural
from fdr_core.terminal import printable


@click.command("disconnect")
@click.argument("project", type=click.IntRange(min=1))
@click.option("--alerts", is_flag=True, help="Delete the alerts project with its cards too.")
@click.option(
    "--erase", is_flag=True, help="Erase everything stored about the project here; of decisions only their seals stay."
)
@click.option("--yes", is_flag=True, help="Ask nothing.")
@says_what_is_wrong
def disconnect(project: int, alerts: bool, erase: bool, yes: bool) -> None:
    """
    Disconnect the Label Studio project with the id PROJECT from this service.

    Removes our webhook, ML backend, tabs and predictions there. What is stored here is kept, unless
    --erase is given; `evenhand connect` takes the project up again.
    """
    with open_service(creates=False) as service:
        client = service.need_client()
        found = project_named(service.store, service.settings.label_studio_url, project)
        what = "erase all that is stored about it" if erase else "keep what is stored about it"
        if not yes:
            click.confirm(f"Disconnect project {project} ({printable(found.title)}) and {what}?", abort=True)
        done = disconnect_project(service.store, client, service.settings, found, with_alerts=alerts, erase=erase)
    click.echo(f"Disconnected project {project} ({printable(found.title)}).")
    click.echo(
        f"  removed there: {plural(done.webhooks, 'webhook')}, {plural(done.backends, 'ML backend')}, "
        f"{plural(done.tabs, 'tab')}, {plural(done.predictions, 'prediction version')}, "
        f"{plural(done.alerts_projects, 'alerts project')}"
    )
    click.echo(f"  here: {f'{done.erased:,} rows erased' if erase else 'everything is kept'}")
