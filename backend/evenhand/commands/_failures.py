"""How a command of the service fails: a message with the next step, and an exit code."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from evenhand.errors import BackendError, SettingsError, UnusableValueError
from fdr_core.terminal import BadInput, Failure, translating

P = ParamSpec("P")
R = TypeVar("R")


def says_what_is_wrong(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the service's errors into a message with the next step: exit code 2 for bad input, else 1."""
    return translating(command, BackendError, _of_service)


def _of_service(error: Exception) -> Failure:
    remedy = error.remedy if isinstance(error, BackendError) else ""
    message = f"{error}\n  What to do: {remedy}" if remedy else str(error)
    return BadInput(message) if isinstance(error, UnusableValueError | SettingsError) else Failure(message)
