"""DuckDB in this process: reads what it needs, uses the disk beyond its memory limit."""

import glob
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fdr_core.engines.expression import (
    foreign_errors,
    load_ibis,
    missing_extra,
    named,
    sum_table,
    under_our_names,
    union_of,
)
from fdr_core.engines.files import Shard, find_files, is_remote, shards_of
from fdr_core.errors import InputError
from fdr_core.statistics import SufficientStatistics

if TYPE_CHECKING:
    import pyarrow as pa

#: Of the machine; the other half is for the sums themselves and for the detection.
MEMORY_LIMIT = "50%"
#: Of what this process may address, where that is limited: addresses are more than memory.
SHARE_OF_ADDRESSES = 0.2
ROWS_PER_BATCH = 1_000_000


def sum_files(
    sources: Sequence[str], *, memory_limit: str | None = None, mapping: Mapping[str, str] | None = None
) -> SufficientStatistics:
    """Sum the answers of CSV and Parquet files."""
    remote = [source for source in sources if is_remote(source)]
    if remote:
        raise InputError(f"{remote[0]} is an address; DuckDB reads files here; copy the data, or use the engine spark")
    shards = shards_of(find_files(sources), mapping=mapping)
    where = f"{', '.join(sources)}: "
    with tempfile.TemporaryDirectory(prefix="evenhand-duckdb-") as folder, foreign_errors(where):
        connection = _connect(folder, memory_limit or _memory_limit())
        try:
            tables = [_read(connection, shard) for shard in shards]
            table, became_text = union_of(tables, where=where)

            def stream(expression: Any) -> "Iterator[pa.RecordBatch]":
                relation = connection.con.sql(connection.compile(expression))
                # DuckDB 2 renamed the method; Ibis 12 still calls the old one, so it is called here.
                read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
                return iter(read(ROWS_PER_BATCH))

            is_text = became_text or all(shard.kind == "csv" for shard in shards)
            words = shards[0].translation.words
            return sum_table(table, stream, where=where, text_labels=is_text, words=words)
        finally:
            connection.disconnect()


def _memory_limit() -> str:
    """DuckDB knows the machine and its container, not a limit on the process (ulimit -v)."""
    try:
        import resource
    except ImportError:  # Windows
        return MEMORY_LIMIT
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    is_limited = addresses != resource.RLIM_INFINITY
    return f"{int(SHARE_OF_ADDRESSES * addresses / 1e6)}MB" if is_limited else MEMORY_LIMIT


def _connect(folder: str, memory_limit: str) -> Any:
    ibis = load_ibis("engines")
    try:
        # The order of rows does not matter, and keeping it would cost memory.
        return ibis.duckdb.connect(memory_limit=memory_limit, temp_directory=folder, preserve_insertion_order=False)
    except ImportError as error:
        raise missing_extra("DuckDB", "engines") from error


def _read(connection: Any, shard: Shard) -> Any:
    """A table of one shard; CSV is text throughout, as in the loader in memory, and strict about rows."""
    paths = [glob.escape(str(path)) for path in shard.paths]
    if shard.kind == "parquet":
        return under_our_names(connection.read_parquet(paths), shard)
    names = [name or f"unused {place}" for place, name in enumerate(shard.columns)]
    table = connection.read_csv(
        paths,
        columns=dict.fromkeys(names, "VARCHAR"),
        delim=shard.separator,
        quote='"',
        escape='"',
        nullstr="",
        header=True,
        strict_mode=True,
    )
    return named(table.select(*(name for name in shard.columns if name)), shard)
