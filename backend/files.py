"""Writing files that only their owner may read, whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from backend.errors import ConfigurationError


@contextmanager
def write_private(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name when the block ends well; nothing is left of one that does not."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}; choose another folder") from error
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
