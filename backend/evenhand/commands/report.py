"""`evenhand report`: write the report of a finished run."""

from pathlib import Path

import click

from evenhand.commands._failures import says_what_is_wrong
from evenhand.commands._service import open_service
from evenhand.errors import NotFoundError
from evenhand.projects.find import project_named
from evenhand.runs.report import report_of_run
from fdr_core.report import pseudonymised, write_report
from fdr_core.terminal import with_parent


@click.command("report")
@click.argument("project", type=click.IntRange(min=1))
@click.option("--run", "run_id", type=click.IntRange(min=1), help="Which run [the latest finished one].")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder to write into.")
@click.option("--pseudonymise", is_flag=True, help="Number the annotators instead of naming them.")
@click.option("--title", help="Title of the report [the project's title].")
@says_what_is_wrong
def report(project: int, run_id: int | None, out: Path, pseudonymise: bool, title: str | None) -> None:
    """Write report.html, report.json, annotators.csv and ranking.csv of PROJECT (its id in Label Studio)."""
    with open_service(creates=False) as service:
        store = service.store
        found = project_named(store, service.settings.label_studio_url, project)
        run = store.runs.get(run_id, project_id=found.id) if run_id else store.runs.latest(found.id)
        if run is None:
            raise NotFoundError(f"project {project} has no finished run yet; `evenhand run {project}` starts one")
        content = report_of_run(store, run, title=title)
    try:
        written = write_report(pseudonymised(content) if pseudonymise else content, with_parent(out))
    except OSError as error:
        raise click.ClickException(f"{error.filename or out} cannot be written: {error.strerror}") from error
    click.echo(f"Written: {', '.join(path.name for path in written[1:])}")
    click.echo(f"Open {written[0]}")
