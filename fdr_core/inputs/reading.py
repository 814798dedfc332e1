"""What file systems and parsers raise, said as one kind of error that names the file and the way out."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from fdr_core.errors import FdrCoreError, InputError

EXPECTED = (
    "expected the columns annotator, left, right and either choice (left, right, tie) or outcome (-1 to 1), "
    "or crowd-kit's worker, left, right, label"
)


def _refuse_devices(path: str | Path) -> None:
    """Refuse what has no end or gives its content only once."""
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(
            f"{path} is a pipe or a device, not a regular file; save its content to a file first, or give - "
            "for standard input"
        )


@contextmanager
def reading(path: str | Path, *, name: str | None = None) -> Iterator[None]:
    """Turn what the file system and the parsers raise into InputError that names the file and the way out."""
    shown = name or str(path)
    try:
        if str(path) != "-":
            _refuse_devices(path)
        yield
    except FdrCoreError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{shown}: there is no such file; check the path") from error
    except IsADirectoryError as error:
        raise InputError(f"{shown} is a folder; expected a file; give the path of one file") from error
    except PermissionError as error:
        raise InputError(f"{shown} may not be read; check its permissions") from error
    except UnicodeError as error:
        raise InputError(f"{shown} is not UTF-8 text ({error}); save it again with the encoding UTF-8") from error
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{shown} is empty; {EXPECTED}; check that the right file was given") from error
    except Exception as error:  # only parsers run under this, and what Arrow, pandas and JSON raise has no common root
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "UTF8" in reason:
            raise InputError(f"{shown} is not UTF-8 text ({reason}); save it again with the encoding UTF-8") from error
        raise InputError(
            f"{shown} cannot be read: {reason}; check that the file is complete and of that kind"
        ) from error
