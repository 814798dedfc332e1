"""What the commands that speak with Label Studio share: opening the service, and errors as messages."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import click
from requests import Session

from backend.errors import BackendError, ConfigurationError, SettingsError
from backend.label_studio import LabelStudioClient, client_from_settings
from backend.label_studio_http import LabelStudioError
from backend.settings import Settings
from backend.store import Store, open_store
from backend.terminal import printable

P = ParamSpec("P")
R = TypeVar("R")


class Failure(click.ClickException):
    """Something went wrong; the message may quote what Label Studio sent."""

    def format_message(self) -> str:
        """The message as a terminal may show it."""
        return printable(self.message)


class BadInput(Failure):
    """The environment or the arguments are wrong."""

    exit_code = 2


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
            raise SettingsError(f"{missing} is not set; this command speaks with Label Studio and needs it")
        return self.client


@contextmanager
def open_service() -> Iterator[Service]:
    """Open store and client as the environment says."""
    settings = Settings.from_env(os.environ)
    store = open_store(settings)
    with Session() as session:
        try:
            yield Service(settings, store, client_from_settings(settings, session))
        finally:
            store.close()


def says_what_is_wrong(command: Callable[P, R]) -> Callable[P, R]:
    """Turn our errors into a message with the next step: exit code 2 for bad input, 1 for everything else."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except BackendError as error:
            message = f"{error}\n  What to do: {error.remedy}" if isinstance(error, LabelStudioError) else str(error)
            is_input = isinstance(error, ConfigurationError | SettingsError)
            raise (BadInput(message) if is_input else Failure(message)) from error

    return wrapped
