"""What the offline commands share: reading a file of answers, showing progress, and failing with exit code 2."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from backend.terminal import printable
from fdr_core import Comparisons, FdrCoreError, InputError
from fdr_core.loaders import reading

P = ParamSpec("P")
R = TypeVar("R")

_PARQUET, _JSON = (b"PAR1",), (b"[", b"{")


class BadInput(click.ClickException):
    """Something the caller can put right; exit code 2."""

    exit_code = 2

    def format_message(self) -> str:
        """The message; names and values in it come from files."""
        return printable(self.message)


def exits_2_on_bad_input(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the library's errors, and files that cannot be written, into a message and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except FdrCoreError as error:
            raise BadInput(str(error)) from error
        except OSError as error:
            raise BadInput(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}") from error

    return wrapped


def load_comparisons(path: Path, *, fields: Mapping[str, Any] | None = None) -> Comparisons:
    """Read answers from CSV, Parquet or a Label Studio export, told apart by name, else by the first bytes."""
    kind = _kind(path)
    given = {name: value for name, value in (fields or {}).items() if value}
    if kind == "json":
        return Comparisons.from_label_studio(path, **given)
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"{path} is no Label Studio export; {options} applies to exports only; leave it out")
    return Comparisons.from_parquet(path) if kind == "parquet" else Comparisons.from_csv(path)


def _kind(path: Path) -> str:
    """Tell the format."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv", ".gz"):
        return "csv"
    if suffix in (".parquet", ".pq"):
        return "parquet"
    if suffix == ".json":
        return "json"
    with reading(path), path.open("rb") as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    return "parquet" if start.startswith(_PARQUET) else "json" if start.startswith(_JSON) else "csv"


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on the error stream, so that redirected output stays clean; give the callback that moves it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def move(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield move
