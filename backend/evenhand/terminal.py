"""Other people's text on a terminal: shown, never obeyed."""

import re

# Control characters move the cursor, set titles or clear the screen; the bidirectional ones reorder what is read.
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with everything a terminal would act on written as an escape, line ends and tabs excepted."""
    return _ACTIVE.sub(lambda found: ascii(found.group())[1:-1], text)
