"""What commands share: opening the service as the environment describes it, and failing with the next step."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import click
from requests import Session

from evenhand.errors import BackendError, NotFoundError, SettingsError, UnusableValueError
from evenhand.label_studio.client import LabelStudioClient, client_from_settings
from evenhand.settings import Settings
from evenhand.store import Store, open_store
from fdr_core.terminal import BadInput, Failure, printable, say_json, translating

P = ParamSpec("P")
R = TypeVar("R")


def says_what_is_wrong(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the service's errors into a message with the next step: exit code 2 for bad input, else 1."""
    return translating(command, BackendError, _of_service)


def _of_service(error: Exception) -> Failure:
    remedy = error.remedy if isinstance(error, BackendError) else ""
    message = f"{error}\n  What to do: {remedy}" if remedy else str(error)
    return BadInput(message) if isinstance(error, UnusableValueError | SettingsError) else Failure(message)


@dataclass(frozen=True)
class Service:
    """The settings, the store and the client the environment describes."""

    settings: Settings
    store: Store
    client: LabelStudioClient | None

    def need_client(self) -> LabelStudioClient:
        """The client, or an error that names what is missing."""
        if self.client is None:
            missing = "LABEL_STUDIO_URL" if not self.settings.label_studio_url else "LABEL_STUDIO_API_KEY"
            raise SettingsError(f"{missing} is not set; this command talks to Label Studio and needs it")
        return self.client


def refuse_without_data(settings: Settings) -> None:
    """Say where data was looked for and that there is none, rather than make an empty database."""
    if not settings.database_url.startswith("sqlite:///"):
        return
    path = Path(settings.database_url.removeprefix("sqlite:///"))
    if not path.exists():
        raise NotFoundError(
            f"there is no data here: {path} does not exist; `evenhand serve` creates it, and MODEL_DIR or "
            "DATABASE_URL names another place"
        )


@contextmanager
def open_data() -> Iterator[tuple[Settings, Store]]:
    """The settings and the store that they name, which must be there already."""
    settings = Settings.from_env(os.environ)
    refuse_without_data(settings)
    with closing(open_store(settings)) as store:
        yield settings, store


@contextmanager
def open_service(*, creates: bool = True) -> Iterator[Service]:
    """Open store and client as the environment says; a command that only reads does not create a database."""
    settings = Settings.from_env(os.environ)
    if not creates:
        refuse_without_data(settings)
    store = open_store(settings)
    settings = replace(settings, webhook_secret=store.secrets.webhook(settings.webhook_secret))
    with Session() as session:
        try:
            yield Service(settings, store, client_from_settings(settings, session))
        finally:
            store.close()


def examine_service(*, as_json: bool) -> None:
    """Print what works, what does not, and the fix."""
    says_what_is_wrong(_examine)(as_json)


def _examine(as_json: bool) -> None:
    from evenhand.administer.doctor import examine

    with open_service() as service:
        checks = examine(service.settings, service.store, service.client)
    if as_json:
        say_json([asdict(check) for check in checks])
        raise SystemExit(int(any(check.ok is False for check in checks)))
    wrong, fine = ([check for check in checks if check.ok is state] for state in (False, True))
    for check in wrong:
        click.echo(f"{click.style('FAIL', fg='red', bold=True)} {check.check}: {printable(check.seen)}")
        click.echo(f"       fix: {printable(check.fix)}")
    for check in fine:
        if not check.check.startswith("project "):
            click.echo(f"{click.style('ok  ', fg='green')} {check.check}: {printable(check.seen)}")
    broken = {check.check.partition(":")[0] for check in wrong}
    well = sorted({name for check in fine if (name := check.check.partition(":")[0]).startswith("project ")} - broken)
    if well:
        click.echo(f"{click.style('ok  ', fg='green')} {', '.join(well)}")
    click.echo(f"{len(fine)} of {len(checks)} checks are fine")
    if wrong:
        raise SystemExit(1)
