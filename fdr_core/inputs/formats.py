"""What a format is: how it is recognised, how it is read, and what its data can and cannot support."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.source import Source

#: The column of logs that name the judge by where they lie.
PATH_OF_FILE = "path of the file"
#: The annotator of data that names none: everybody together.
POOLED = "everybody"
POOLED_NOTE = "No annotator is recorded: all answers are judged as those of one crowd, and no single person can be."


@dataclass(frozen=True)
class Format:
    """
    One way in which answers are written down.

    Attributes
    ----------
    name : str
        What `--format` takes.
    title : str
        What people call it.
    recognises : callable
        Whether a source looks like this format; it may look at names, sample and document.
    read : callable
        From a source to answers; those of Label Studio take also what says how an export is read.
    uses : mapping
        From the columns that are read to what each is used for.
    supports, lacks : tuple of str
        What such data can and cannot tell, in whole sentences.
    refusal : str
        Why the format cannot be judged at all; empty where it can.
    takes_words : bool
        Whether `read` takes what answers mean, and a second file in the other order.
    """

    name: str
    title: str
    recognises: Callable[[Source], bool]
    read: Callable[..., RawAnswers]
    uses: Mapping[str, str]
    supports: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    refusal: str = ""
    takes_words: bool = False


@dataclass(frozen=True)
class Recognised:
    """
    What a file was recognised as.

    Attributes
    ----------
    format : str
        Name of the format; title : the same in words.
    kind : str
        csv, json, jsonl or parquet.
    columns : mapping
        From columns of the file to what each is used for; unused : the other columns.
    supports, lacks : tuple of str
        What the data can and cannot support.
    refusal : str
        Why the file cannot be judged; empty where it can.
    """

    format: str
    title: str
    kind: str
    columns: Mapping[str, str]
    unused: tuple[str, ...]
    supports: tuple[str, ...]
    lacks: tuple[str, ...]
    refusal: str = ""


def recognised_as(format: Format, source: Source) -> Recognised:
    """Describe a source in the words of its format."""
    used = {name: use for name, use in format.uses.items() if name in source.names or name == PATH_OF_FILE}
    unused = tuple(name for name in source.names if name not in used)
    lacks = format.lacks
    if not format.refusal and not any(use.startswith("annotator") for use in (used or format.uses).values()):
        lacks = (*lacks, POOLED_NOTE)
    return Recognised(
        format.name,
        format.title,
        source.kind,
        MappingProxyType(used or dict(format.uses)),
        unused,
        format.supports,
        lacks,
        format.refusal,
    )
