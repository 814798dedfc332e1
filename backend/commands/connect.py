"""`evenhand connect`: registers backend, webhook secret and project settings through Label Studio's API."""

from collections.abc import Callable
from typing import Any

import click

from backend.commands._label_studio import open_service, says_what_is_wrong
from backend.config import ProjectConfig, parse_config
from backend.connect import WHO_SEES_IT, connect_project
from backend.reconcile import pull_project
from backend.terminal import printable

Command = Callable[..., Any]


def _setting_options(command: Command) -> Command:
    """One option per project setting, under the same name."""
    for name, info in reversed(ProjectConfig.model_fields.items()):
        command = click.option(f"--{name.replace('_', '-')}", name, help=info.description)(command)
    return command


@click.command("connect")
@click.argument("project", type=click.IntRange(min=1))
@_setting_options
@click.option("--pseudonyms", is_flag=True, help="Show pseudonyms instead of names on the alert cards.")
@click.option("--yes", is_flag=True, help="Do not ask who may see the alerts.")
@says_what_is_wrong
def connect(project: int, pseudonyms: bool, yes: bool, **settings: str | None) -> None:
    """
    Connect the Label Studio project with the id PROJECT to this service.

    Run it while `evenhand serve` runs, since Label Studio calls this service before it accepts it. Repeat it to
    change settings. --publish takes a comma list of predictions, tab and alerts.
    """
    values: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    publish = parse_config(values).publish if "publish" in values else None
    if publish is not None:
        pseudonyms = pseudonyms or publish.pseudonyms
        if (publish.alerts or publish.tab) and not yes:
            pseudonyms = _ask(pseudonyms)
        values["publish"] = {**publish.model_dump(), "pseudonyms": pseudonyms}
    with open_service() as service:
        client = service.need_client()
        made = connect_project(service.store, client, service.settings, project, values)
        click.echo(f"Connected project {project} ({printable(made.project.title)}) as project {made.project.id}.")
        click.echo(f"  ML backend: {'added' if made.backend_was_new else 'up to date'}")
        click.echo(f"  webhook:    {'installed' if made.webhook_changed else 'up to date'}")
        report = pull_project(service.store, client, made.project, full=True)
        click.echo(f"  first pull: {report.annotations:,} annotations on {report.tasks:,} tasks")
        if report.unreadable:
            click.echo(f"  {report.unreadable:,} of them cannot be judged; `evenhand status` tells why")


def _ask(pseudonyms: bool) -> bool:
    """Say who will see the alerts, and ask; returns whether pseudonyms are to be used."""
    click.echo(WHO_SEES_IT)
    if pseudonyms:
        click.confirm("Publish with pseudonyms?", abort=True)
        return True
    answer = click.prompt("Publish", type=click.Choice(["names", "pseudonyms", "no"]), default="no")
    if answer == "no":
        raise click.Abort
    return bool(answer == "pseudonyms")
