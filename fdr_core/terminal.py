"""What a program says on a terminal: other people's text shown and never obeyed, failures with an exit code."""

import functools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from fdr_core.errors import FdrCoreError

P = ParamSpec("P")
R = TypeVar("R")
# Control characters move the cursor, set titles or clear the screen; the bidirectional ones reorder what is read.
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with everything a terminal would act on written as an escape, line ends and tabs excepted."""
    return _ACTIVE.sub(lambda found: ascii(found.group())[1:-1], text)


class Failure(click.ClickException):
    """Something went wrong; the message may quote files or what Label Studio sent."""

    def format_message(self) -> str:
        """The message as a terminal may show it."""
        return printable(self.message)


class BadInput(Failure):
    """Something the caller can put right: the environment, the arguments, a file."""

    exit_code = 2


def with_parent(path: Path) -> Path:
    """The path, if it can be written, asked before the work; folders above are not made: a typo would hide it."""
    parent = path.absolute().parent
    if not parent.is_dir():
        raise BadInput(f"the folder {path.parent} does not exist; make it first, or name another place")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise BadInput(f"{path} cannot be written; change its rights, or name another place")
    return path


#: Adds `--json` to a command, for programs that read what it says.
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def say_json(value: Any) -> None:
    """Print a value as JSON; what JSON has no word for stands as text."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def exits_2_on_bad_input(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the library's errors, and files that cannot be used, into a message and exit code 2."""
    return translating(command, (FdrCoreError, OSError), _of_library)


def translating(
    command: Callable[P, R],
    kinds: type[Exception] | tuple[type[Exception], ...],
    translate: Callable[[Exception], Failure],
) -> Callable[P, R]:
    """The command, with errors of these kinds as failures."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:  # nobody reads any more, which is no error of a file
            raise
        except kinds as error:
            raise translate(error) from error

    return wrapped


def _of_library(error: Exception) -> Failure:
    if isinstance(error, OSError) and not isinstance(error, FdrCoreError):
        return BadInput(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}")
    return BadInput(str(error))
