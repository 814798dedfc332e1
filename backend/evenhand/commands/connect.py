"""`evenhand connect`: registers backend, webhook secret and project settings through Label Studio's API."""

import getpass
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from evenhand.administer.connect import WHO_SEES_IT, connect_project
from evenhand.commands._service import Service, open_service, says_what_is_wrong
from evenhand.domain import Project, Trigger
from evenhand.errors import UnusableValueError
from evenhand.ingest.pull import PullReport, pull_project
from evenhand.label_studio.client import service_url
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.projects.reading import (
    ANEW,
    ASSIGNMENTS,
    KEEP,
    answers_told,
    assignment_of,
    change_config,
    confirm_reading,
    open_guesses,
    reading_of,
    setting_of,
    settle_setup,
    setup_of,
    state_sides,
)
from evenhand.runs.run import first_look
from evenhand.store import Store
from fdr_core.inputs.label_studio.reading import PREPARED_COIN, other_controls
from fdr_core.inputs.label_studio.words import answers_from
from fdr_core.options import BY_NAME
from fdr_core.progress import progress_bar
from fdr_core.report.words import duration
from fdr_core.terminal import printable

#: Between two lines on how far a reading is.
TELL_SECONDS = 5.0
Command = Callable[..., Any]
SIDES = (*ASSIGNMENTS, *(BY_NAME["sides"].choices or ()))


def _setting_options(command: Command) -> Command:
    """One option per project setting, under the same name; `sides` has an option of its own."""
    for name, info in reversed(ProjectConfig.model_fields.items()):
        if name != "sides":
            command = click.option(f"--{name.replace('_', '-')}", name, help=info.description)(command)
    return command


@click.command("connect")
@click.argument("project", type=click.IntRange(min=1))
@click.option(
    "--sides",
    type=click.Choice(SIDES, case_sensitive=False),
    help="How sides were assigned: prepared (by `evenhand prepare`), shuffled (by you, per task), or unknown.",
)
@_setting_options
@click.option(
    "--pseudonyms/--names",
    default=None,
    help="Show pseudonyms (the default) or names on the alert cards; there are no review tabs with pseudonyms.",
)
@click.option(
    "--changed-setup",
    type=click.Choice((KEEP, ANEW)),
    help="After the labelling setup has changed: keep reading as agreed, or read everything anew by today's setup.",
)
@click.option("--yes", is_flag=True, help="Ask nothing; what is guessed of the answers counts as confirmed.")
@says_what_is_wrong
def connect(
    project: int,
    sides: str | None,
    pseudonyms: bool | None,
    changed_setup: str | None,
    yes: bool,
    **settings: str | None,
) -> None:
    """
    Connect the Label Studio project with the id PROJECT to this service.

    Run it while `evenhand serve` runs, since Label Studio calls this service before it accepts it. Repeat it to
    change settings. --publish takes a comma-separated list of predictions, tab, columns (written into the data
    of the tasks that a tab lists) and alerts.

    \b
    Examples:
      evenhand connect 1 --sides prepared
      evenhand connect 1 --sides shuffled --publish tab,alerts --yes
    """
    values: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    publish = parse_config(values).publish if "publish" in values else None
    if publish is not None:
        pseudonyms = True if publish.pseudonyms else pseudonyms
        if publish.alerts or publish.tab:
            click.echo(WHO_SEES_IT)
            pseudonyms = _ask(pseudonyms) if not yes else pseudonyms is not False
        values["publish"] = {**publish.model_dump(), "pseudonyms": bool(pseudonyms)}
    with open_service() as service:
        client = service.need_client()
        setting = None if sides is None else setting_of(sides)
        made = connect_project(
            service.store, client, service.settings, project, values, sides=setting, by=getpass.getuser()
        )
        if sides is not None:
            state_sides(service.store, made.project, sides, by=getpass.getuser())
        click.echo(f"Connected Label Studio project {project} ({printable(made.project.title)}).")
        if made.config.pull_only:
            minutes = service.settings.reconcile_minutes
            how = (
                f"every {duration(60 * minutes)}"
                if minutes
                else "only by `evenhand sync`: EVENHAND_RECONCILE_MINUTES is 0"
            )
            click.echo(f"  pull only:  nothing is registered in Label Studio; answers are fetched {how}")
        else:
            click.echo(f"  ML backend: {'added' if made.backend_was_new else 'up to date'}")
            click.echo(f"  webhook:    {'installed' if made.webhook_changed else 'up to date'}")
        if changed_setup:
            settle_setup(service.store, made.project, changed_setup, by=getpass.getuser())
        report = _pull(service, made.project.id)
        click.echo(f"  first pull: {report.annotations:,} annotations on {report.tasks:,} tasks")
        _agree(service, made.project.id, yes=yes)
        _state(service, service.store.projects.get(made.project.id), asks=not yes)
        _tell(service, service.store.projects.get(made.project.id))


def _state(service: Service, project: Project, *, asks: bool) -> None:
    """Say what stands about the sides; ask for it where nobody has said anything yet."""
    store = service.store
    known = store.statements.all(project.id)
    if not known and asks and sys.stdin.isatty():
        click.echo("How were the sides of the items assigned?")
        for name, assignment in ASSIGNMENTS.items():
            click.echo(f"  {name}: {assignment.words}. {assignment.follows}")
        default = "prepared" if PREPARED_COIN in project.task_fields else "unknown"
        sides = click.prompt("Sides", type=click.Choice(tuple(ASSIGNMENTS)), default=default)
        state_sides(store, project, sides, by=getpass.getuser())
        known = store.statements.all(project.id)
    stated = known[0]["sides"] if known else assignment_of(str(project.config.get("sides")))
    meant = ASSIGNMENTS.get(stated)
    words = f"{meant.words}. {meant.follows}" if meant else ""
    said = f" (said by {known[0]['said_by']})" if known else " (nobody has said; tell us with --sides)"
    click.echo(f"  sides:      {stated}{said}. {words}".rstrip())


def _tell(service: Service, project: Project) -> None:
    """What is read, what the audit says of it, and the next step; a run is asked for where there are answers."""
    address = service.settings.public_url or service_url(service.settings)
    with progress_bar() as bar:
        look = first_look(service.store, project, bar, page=f"{address}/ui/projects/{project.id}")
    click.echo(f"  audit:      {look.audit}")
    if look.is_misread:
        raise UnusableValueError(look.audit)
    if look.answers:
        service.store.runs.request(project.id, Trigger.CONNECT, getpass.getuser())
    click.echo(f"Next: {look.next_step}")


def _pull(service: Service, project_id: int) -> PullReport:
    """Read everything, and say how far it is: Label Studio hands out a hundred tasks or so in a second."""
    started, last = time.monotonic(), 0.0

    def tell(pages: int, read: int, answers: int, total: int) -> None:
        nonlocal last
        bar(f"reading: page {pages:,}, {answers:,} answers", read, total)
        spent = time.monotonic() - started
        if spent - last > TELL_SECONDS and not sys.stderr.isatty():
            last = spent
            left = f", about {duration(spent * (total - read) / read)} left" if 0 < read < total else ""
            told = f"page {pages:,}, {read:,} of {total:,} tasks, {answers:,} answers{left}"
            click.echo(f"  reading:    {told}", err=True)

    with progress_bar() as bar:
        project = service.store.projects.get(project_id)
        return pull_project(service.store, service.need_client(), project, full=True, tell=tell)


def _agree(service: Service, project_id: int, *, yes: bool) -> None:
    """Print how answers are read, and ask where that is a guess; without a terminal a problem stays open."""
    store, by = service.store, getpass.getuser()
    project = store.projects.get(project_id)
    while True:
        _print_reading(store, project)
        if not open_guesses(project, reading_of(project)):
            return
        if yes:
            confirm_reading(store, project, by=by)
            return
        if not sys.stdin.isatty():
            click.echo("  Confirm what is guessed with --yes, or correct it with --answers; it stays a problem so far.")
            return
        said = click.prompt("Is this right? Enter confirms; else say it, such as 'A is worse=right'", default="yes")
        if said.strip().lower() in ("yes", "y"):
            confirm_reading(store, project, by=by)
            return
        answers = {**(project.config.get("answers") or {}), **answers_from(said)}
        change_config(store, project, {"answers": answers}, by=by)
        _pull(service, project_id)
        project = store.projects.get(project_id)


def _print_reading(store: Store, project: Project) -> None:
    """The control, the fields, and what every answer means."""
    reading = reading_of(project)
    if reading is None:
        click.echo("  reads:      nothing yet; `evenhand status` says why")
        return
    coin = f", coin {reading.coin!r}" if reading.coin else ""
    click.echo(f"  reads:      {reading.words}, {reading.shows}{coin}")
    others = other_controls(setup_of(project.label_config), [control.name for control in reading.controls])
    if others:
        read = ",".join((*(control.name for control in reading.controls), *others))
        how = "tests them beside it" if reading.beside else "judges them together, with `--control NAME` apart"
        click.echo(f"              not read: {', '.join(others)}; `--controls {read}` {how}")
    for told in answers_told(store, project, reading):
        meaning = told.meaning or "NOT UNDERSTOOD"
        example = f", such as task {told.task_id}" if told.task_id is not None else ""
        guess = f"  (a guess: {told.guess})" if told.guess else ""
        click.echo(f"    {printable(told.answer)!r:<34} {meaning:<14} {told.count:>7,} answers{example}{guess}")
    for guess in open_guesses(project, reading):
        click.echo(f"  guessed:    {printable(guess)}")
    for problem in store.problems.find(project.id):
        if problem.code in ("unreadable_answers", "setup_changed", "reads_less"):
            click.echo(f"  Problem: {printable(problem.message)}\n  What to do: {problem.remedy}")


def _ask(pseudonyms: bool | None) -> bool:
    """Ask who is to see what; returns whether pseudonyms are to be used."""
    if pseudonyms is not None:
        click.confirm(f"Publish with {'pseudonyms' if pseudonyms else 'names'}?", abort=True)
        return pseudonyms
    answer = click.prompt("Publish", type=click.Choice(["names", "pseudonyms", "no"]), default="pseudonyms")
    if answer == "no":
        raise click.Abort
    return bool(answer == "pseudonyms")
