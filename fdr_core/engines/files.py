"""Which files are meant, and how each writes its answers; only headers are read here."""

import glob
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from fdr_core.errors import ConfigurationError, InputError
from fdr_core.inputs import MAPPABLE, csv_files
from fdr_core.inputs.reading import reading
from fdr_core.inputs.rows import OUTCOMES
from fdr_core.inputs.tables import KNOWN, check_names, read_frame

#: Formats whose rows are answers, so that sums suffice: their columns, first those that must be there.
_FORMATS = (
    ({"model_a": "left", "model_b": "right", "winner": "choice"}, ("judge", "evaluation_session_id")),
    ({"left": "left", "right": "right", "winner": "choice"}, ("annotator", "judge", "worker")),
)


@dataclass(frozen=True)
class Translation:
    """
    How a file's columns are called here.

    Attributes
    ----------
    columns : mapping
        From the file's names to ours; others keep theirs.
    is_pooled : bool
        Whether nobody is named, so that all are one crowd.
    words : mapping, optional
        From the words of a choice to outcomes; left, right and tie where it is None.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    is_pooled: bool = False
    words: Mapping[str, float] | None = None

    def names(self, theirs: Sequence[str]) -> list[str]:
        """Our names of the columns; a column that keeps its name must not be mistaken for one that was named
        explicitly."""
        named = set(self.columns.values())
        return [self.columns.get(name, name if name not in named else f"their {name}") for name in theirs]


def translation_of(names: Sequence[str], mapping: Mapping[str, str] | None = None) -> Translation:
    """Take the map that was given, else the format that the columns tell, else the columns as they are."""
    if mapping:
        unknown = [ours for ours in mapping if ours not in MAPPABLE]
        if unknown:
            raise ConfigurationError(f"--map names {', '.join(unknown)}; expected one of {', '.join(MAPPABLE)}")
        is_pooled = "annotator" not in mapping and not {"annotator", "worker"} & set(names)
        return Translation({theirs: ours for ours, theirs in mapping.items()}, is_pooled, OUTCOMES)
    if {"choice", "outcome", "label"} & set(names):
        return Translation()
    for required, people in _FORMATS:
        if set(required) <= set(names):
            who = next((name for name in people if name in names), None)
            return Translation({**required, **({who: "annotator"} if who else {})}, who is None, OUTCOMES)
    return Translation()


_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Shard:
    """Files that are written alike: kind, separator, and columns in order (None for those nobody needs).

    ``columns`` are our names, ``theirs`` those in the files.
    """

    kind: str
    separator: str
    columns: tuple[str | None, ...]
    paths: tuple[Path, ...]
    theirs: tuple[str, ...] = ()
    translation: Translation = field(default_factory=Translation)

    def renamed(self) -> dict[str, str]:
        """From our names to theirs, of the columns that are needed."""
        return {ours: theirs for ours, theirs in zip(self.columns, self.theirs, strict=True) if ours}


def is_remote(source: str) -> bool:
    """Tell an address from a path."""
    return "://" in source


def find_files(sources: Sequence[str]) -> list[Path]:
    """Resolve files, folders (searched through) and glob patterns, each file once, in order of name."""
    found: dict[Path, None] = {}
    for source in sources:
        for path in _matches(source):
            found.setdefault(path.resolve())
    return sorted(found)


def shards_of(paths: Iterable[Path], *, mapping: Mapping[str, str] | None = None) -> list[Shard]:
    """Read the headers and put files that are written alike together."""
    alike: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], list[Path]] = {}
    for path in paths:
        with reading(path):
            kind = kind_of(path)
            separator, names, types = ("", *_parquet_columns(path)) if kind == "parquet" else (*_csv_columns(path), ())
        alike.setdefault((kind, separator, tuple(names), types), []).append(path)
    return [_shard(kind, separator, names, files, mapping) for (kind, separator, names, _), files in alike.items()]


def _shard(
    kind: str, separator: str, names: tuple[str, ...], files: list[Path], mapping: Mapping[str, str] | None
) -> Shard:
    translation = translation_of(names, mapping)
    ours = translation.names(names)
    check_columns([*ours, *(["annotator"] if translation.is_pooled else [])], where=f"{files[0]}: ")
    return Shard(kind, separator, tuple(_known(ours)), tuple(files), names, translation)


def check_columns(names: Sequence[str], *, where: str) -> None:
    """Refuse missing and doubled columns with the words of the loader in memory."""
    check_names(list(names), where=where)
    read_frame(pd.DataFrame(columns=list(dict.fromkeys(names))), where=where)


def kind_of(path: Path) -> str:
    """Tell CSV from Parquet by name, else by the first bytes."""
    name = path.name.lower()
    if name.endswith(_CSV):
        return "csv"
    if name.endswith(_PARQUET):
        return "parquet"
    with path.open("rb") as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith((b"[", b"{")):
        raise InputError(
            f"{path} looks like a Label Studio export; engines read CSV and Parquet; use the engine `memory` for it"
        )
    return "parquet" if start.startswith(b"PAR1") else "csv"


def _matches(source: str) -> list[Path]:
    """The files one source stands for."""
    path = Path(source)
    if path.is_dir():
        found = [inner for inner in path.rglob("*") if inner.name.lower().endswith(_CSV + _PARQUET)]
        # Names that begin with a dot or an underscore are what Spark and others leave beside their data.
        found = [inner for inner in found if inner.is_file() and not inner.name.startswith((".", "_"))]
        expected = f"the folder {source} holds no file with a name in {', '.join(_CSV + _PARQUET)}"
    elif path.exists() or not glob.has_magic(source):
        found, expected = ([path] if path.exists() else []), f"{source}: there is no such file"
    else:
        found = [Path(name) for name in glob.glob(source, recursive=True)]
        found, expected = [inner for inner in found if inner.is_file()], f"no file matches {source}"
    if not found:
        raise InputError(f"{expected}; check the path")
    return found


def _csv_columns(path: Path) -> tuple[str, list[str]]:
    separator, names = csv_files.header(path, name=str(path))
    return separator, [name.strip() for name in names]


def _parquet_columns(path: Path) -> tuple[list[str], tuple[str, ...]]:
    """Names, and the types of the known ones: files of different types are read apart."""
    import pyarrow.parquet

    schema = pyarrow.parquet.read_schema(path)
    return [str(name) for name in schema.names], tuple(str(field.type) for field in schema if field.name in KNOWN)


def _known(names: Sequence[str]) -> list[str | None]:
    return [name if name in KNOWN else None for name in names]
