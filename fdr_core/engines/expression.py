"""The sums as one Ibis expression: answers counted per annotator, coin, left, right and answer."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fdr_core.engines.assembly import Assembly
from fdr_core.errors import FdrCoreError, InputError, MissingExtraError
from fdr_core.inputs.formats import POOLED
from fdr_core.statistics import SufficientStatistics

if TYPE_CHECKING:
    import pyarrow as pa

    from fdr_core.engines.files import Shard

Table = Any  # ibis.Table: Ibis is optional and untyped here
Stream = Callable[[Table], "Iterator[pa.RecordBatch]"]

ANSWERS = ("outcome", "choice", "label")
#: Modules whose exceptions mean that an engine could not do its work; they have no common base.
_FOREIGN = frozenset({"duckdb", "_duckdb", "pyspark", "py4j", "psycopg", "pyarrow", "ibis"})


def sum_table(
    table: Table,
    stream: Stream,
    *,
    where: str = "",
    text_labels: bool = False,
    excluded: Mapping[str, int] | None = None,
    words: Mapping[str, float] | None = None,
) -> SufficientStatistics:
    """
    Sum the answers of an Ibis table with the columns of `Comparisons.from_frame`.

    Parameters
    ----------
    table : ibis.Table
    stream : callable
        Runs an Ibis expression and yields its result in Arrow record batches.
    where : str
        Names the source in messages, ending in ": ".
    text_labels : bool
        Whether labels were read as text only, as from CSV: integers are then restored as the loader in memory does.
    excluded : mapping, optional
        Answers left out before, by reason.
    words : mapping, optional
        From the words of a choice, in lower case, to outcomes; left, right and tie by default.
    """
    answer = answer_column(table.columns)
    assembly = Assembly(answer=answer, where=where, text_labels=text_labels, words=words)
    with foreign_errors(where):
        for batch in stream(sums_expression(table)):
            assembly.add(batch)
    return assembly.finish(excluded)


def under_our_names(table: Table, shard: "Shard") -> Table:
    """The columns of a table that are needed, under our names."""
    return named(table.select(**{ours: table[theirs] for ours, theirs in shard.renamed().items()}), shard)


def named(table: Table, shard: "Shard") -> Table:
    """Give a table that names nobody one name for everybody."""
    return table.mutate(annotator=load_ibis().literal(POOLED)) if shard.translation.is_pooled else table


def sums_expression(table: Table) -> Table:
    """Count the answers of each kind; what a kind means is decided afterwards, once per distinct value."""
    who = "annotator" if "annotator" in table.columns else "worker"
    keys = {
        "annotator": table[who],
        "left": table["left"],
        "right": table["right"],
        "answer": table[answer_column(table.columns)],
        **{name: table[name] for name in ("coin", "task") if name in table.columns},
    }
    return table.select(**keys).group_by(list(keys)).aggregate(n=lambda kind: kind.count())


def answer_column(names: Sequence[str]) -> str:
    """Which of the three ways of writing an answer a table uses."""
    return next(name for name in ANSWERS if name in names)


def union_of(tables: Sequence[Table], *, where: str) -> tuple[Table, bool]:
    """Stack tables by column name; the second value tells whether labels of different types became text."""
    wanted = ("annotator", "worker", "left", "right", *ANSWERS, "coin", "task")
    present = [[name for name in wanted if name in table.columns] for table in tables]
    required = [tuple(name for name in names if name not in ("coin", "task")) for names in present]
    if len(set(required)) > 1:
        ways = " and ".join(sorted({", ".join(names) for names in required}))
        raise InputError(f"{where}the files do not agree on their columns ({ways}); rename the columns or read apart")
    names = [name for name in wanted if any(name in columns for columns in present)]
    common = {name: _common_type(tables, name) for name in names}
    aligned = [table.select(**{name: _column(table, name, common[name]) for name in names}) for table in tables]
    stacked = aligned[0]
    for table in aligned[1:]:
        stacked = stacked.union(table)
    became_text = any(not is_same for _, is_same in common.values())
    return stacked, became_text


def _common_type(tables: Sequence[Table], name: str) -> tuple[Any, bool]:
    types = {table[name].type().copy(nullable=True) for table in tables if name in table.columns}
    if len(types) == 1:
        return next(iter(types)), True
    if all(kind.is_integer() for kind in types):
        return "int64", True
    return ("float64", True) if all(kind.is_numeric() for kind in types) else ("string", False)


def _column(table: Table, name: str, common: tuple[Any, bool]) -> Any:
    """A column under the common type, empty where the table has none."""
    if name not in table.columns:
        return load_ibis().null(common[0])
    return table[name].cast(common[0])


def load_ibis(extra: str = "engines") -> Any:
    """Import Ibis, or say which extra brings it."""
    try:
        with quiet():
            import ibis
    except ImportError as error:
        raise missing_extra("Ibis", extra) from error
    return ibis


def missing_extra(what: str, extra: str) -> MissingExtraError:
    """Name the way to install what is missing."""
    return MissingExtraError(f"{what} is not installed; install it with `pip install 'evenhand[{extra}]'`")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep deprecations between Ibis and its engines from people who can do nothing about them."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        yield


@contextmanager
def foreign_errors(where: str) -> Iterator[None]:
    """Turn what an engine raises into InputError with the sentence that says what is wrong."""
    try:
        with quiet():
            yield
    except FdrCoreError:
        raise
    except Exception as error:
        if type(error).__module__.split(".")[0] not in _FOREIGN:
            raise
        raise InputError(f"{where}cannot be read: {_essence(str(error))}; check that the data is complete") from error


def _essence(message: str) -> str:
    """The telling lines of an engine's message, which may go on for pages."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("Caused by", "Invalid Input Error", "Expected Number"))]
    telling += [line for line in lines if line.startswith(("Original Line", "file =", "LINE"))]
    text = "; ".join(dict.fromkeys(telling or lines[:1]))
    return text if len(text) <= 500 else text[:499] + "…"
