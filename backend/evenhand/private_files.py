"""Writing files that only their owner may read, whole or not at all."""

import contextlib
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from evenhand.errors import UnusableValueError

logger = logging.getLogger(__name__)
FILE_MODE, FOLDER_MODE = 0o600, 0o700
OTHERS = 0o077
#: What SQLite keeps beside a database.
COMPANIONS = ("", "-wal", "-shm", "-journal")


@contextmanager
def write_private(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name when the block ends well; otherwise nothing of it is left."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    except OSError as error:
        raise UnusableValueError(f"{path} cannot be written: {error.strerror}; choose another folder") from error
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name has to survive a power cut too
    finally:
        os.close(folder)


def keep_private(database: Path, *, folder_is_ours: bool) -> None:
    """Make a database, and a folder that is ours, readable by their owner only; what was open is tightened."""
    folder = database.parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    except OSError as error:
        raise UnusableValueError(
            f"{folder} cannot be made: {error.strerror}; check DATABASE_URL and MODEL_DIR"
        ) from error
    if not database.exists() and os.access(folder, os.W_OK):
        os.close(os.open(database, os.O_CREAT | os.O_RDWR, FILE_MODE))  # SQLite gives its companions the same mode
    if folder_is_ours and not folder.stat().st_mode & stat.S_ISVTX:  # a sticky folder, such as /tmp, is everybody's
        _tighten(folder, FOLDER_MODE)
    for end in COMPANIONS:
        _tighten(database.with_name(database.name + end), FILE_MODE)


def secret_file(path: Path, make: Callable[[], str]) -> str:
    """The secret in a file of our own, made on first use; of several processes that make it, one wins."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(encoding="ascii").strip()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(make())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)
    return path.read_text(encoding="ascii").strip()


def _tighten(path: Path, mode: int) -> None:
    """Take rights from everybody but the owner, and say so."""
    try:
        status = path.stat()
        if not status.st_mode & OTHERS:
            return
        path.chmod(mode)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s can be read by others and could not be tightened: %s", path, error.strerror)
        return
    logger.warning("%s was mode %o, open to others; it is %o now", path, stat.S_IMODE(status.st_mode), mode)
