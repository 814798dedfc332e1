"""A seal over a whole archive: the last bytes of the file are the SHA-256 of all bytes before them."""

import hashlib
import hmac
from pathlib import Path
from typing import IO

DIGITS = 64
#: Stands in the archive's comment until the rest of the file is known.
PLACEHOLDER = b"sha256:" + b"0" * DIGITS
PIECE = 1 << 20


def seal(file: IO[bytes]) -> None:
    """Write the digest over the end of an archive whose comment is the placeholder."""
    size = file.seek(0, 2)
    digest = _digest(file, size - DIGITS)
    file.seek(size - DIGITS)
    file.write(digest)
    file.seek(0, 2)


def is_intact(path: Path) -> bool:
    """Whether a sealed file is what was written, to the last bit."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < len(PLACEHOLDER):
            return False
        digest = _digest(file, size - DIGITS)
        return hmac.compare_digest(file.read(DIGITS), digest)


def _digest(file: IO[bytes], size: int) -> bytes:
    """The digest of the first bytes, in hexadecimal."""
    file.seek(0)
    digest = hashlib.sha256()
    while size > 0 and (piece := file.read(min(PIECE, size))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest().encode()
