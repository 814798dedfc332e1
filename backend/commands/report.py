"""`evenhand report`: write the report of a finished run."""

from pathlib import Path

import click

from backend.commands._label_studio import open_service, says_what_is_wrong
from backend.errors import NotFoundError
from backend.report import pseudonymised, report_of_run, write_report


@click.command("report")
@click.argument("project", type=click.IntRange(min=1))
@click.option("--run", "run_id", type=click.IntRange(min=1), help="Which run [the latest finished one].")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder to write into.")
@click.option("--pseudonymise", is_flag=True, help="Number the annotators instead of naming them.")
@says_what_is_wrong
def report(project: int, run_id: int | None, out: Path, pseudonymise: bool) -> None:
    """Write report.html, report.json, annotators.csv and ranking.csv of PROJECT (the id `evenhand status` shows)."""
    with open_service() as service:
        store = service.store
        found = store.get_project(project)
        run = store.get_run(run_id, project_id=found.id) if run_id else store.latest_run(found.id)
        if run is None:
            raise NotFoundError(f"project {project} has no finished run yet; `evenhand run {project}` starts one")
        content = report_of_run(store, run)
    try:
        written = write_report(pseudonymised(content) if pseudonymise else content, out)
    except OSError as error:
        raise click.ClickException(f"{error.filename or out} cannot be written: {error.strerror}") from error
    for path in written:
        click.echo(str(path))
