"""How a command fails: a message with the next step, and an exit code."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from evenhand.errors import BackendError, SettingsError, UnusableValueError
from evenhand.terminal import printable
from fdr_core import FdrCoreError

P = ParamSpec("P")
R = TypeVar("R")


class Failure(click.ClickException):
    """Something went wrong; the message may quote files or what Label Studio sent."""

    def format_message(self) -> str:
        """The message as a terminal may show it."""
        return printable(self.message)


class BadInput(Failure):
    """Something the caller can put right: the environment, the arguments, a file."""

    exit_code = 2


def with_parent(path: Path) -> Path:
    """The path, if the folder it lies in exists: folders are not made silently, a mistyped one would hide the file."""
    if not path.absolute().parent.is_dir():
        raise BadInput(f"the folder {path.parent} does not exist; make it first, or name another place")
    return path


def says_what_is_wrong(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the service's errors into a message with the next step: exit code 2 for bad input, else 1."""
    return _translating(command, BackendError, _of_service)


def exits_2_on_bad_input(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the library's errors, and files that cannot be used, into a message and exit code 2."""
    return _translating(command, (FdrCoreError, OSError), _of_library)


def _translating(
    command: Callable[P, R],
    kinds: type[Exception] | tuple[type[Exception], ...],
    translate: Callable[[Exception], Failure],
) -> Callable[P, R]:
    """The command, with errors of these kinds as failures."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except kinds as error:
            raise translate(error) from error

    return wrapped


def _of_service(error: Exception) -> Failure:
    remedy = error.remedy if isinstance(error, BackendError) else ""
    message = f"{error}\n  What to do: {remedy}" if remedy else str(error)
    return BadInput(message) if isinstance(error, UnusableValueError | SettingsError) else Failure(message)


def _of_library(error: Exception) -> Failure:
    if isinstance(error, OSError) and not isinstance(error, FdrCoreError):
        return BadInput(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}")
    return BadInput(str(error))
