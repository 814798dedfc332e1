"""Spark, for archives beyond one machine: the same expression, run by a cluster or by local cores."""

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
from fdr_core.engines.files import Shard, check_columns, find_files, is_remote, shards_of
from fdr_core.errors import FdrCoreError, InputError, MissingExtraError
from fdr_core.statistics import SufficientStatistics

if TYPE_CHECKING:
    import pyarrow as pa

#: Spark in one process stops at 1 GB unless told otherwise: too little for the sums of some million answers.
LOCAL_MEMORY = "4g"
_SETTINGS = {
    "spark.app.name": "evenhand",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.maxResultSize": "0",  # the sums come to the driver whole
    "spark.sql.csv.parser.columnPruning.enabled": "false",  # otherwise rows with missing fields would pass
    "spark.sql.session.timeZone": "UTC",
}
_CSV_OPTIONS = {
    "header": "true",
    "quote": '"',
    "escape": '"',
    "multiLine": "true",
    "mode": "FAILFAST",
    "encoding": "UTF-8",
}


def sum_files(sources: Sequence[str], *, master: str, mapping: Mapping[str, str] | None = None) -> SufficientStatistics:
    """Sum the answers of CSV and Parquet files, or of Parquet data at addresses the cluster knows."""
    remote = [source for source in sources if is_remote(source)]
    local = [source for source in sources if not is_remote(source)]
    shards = shards_of(find_files(local), mapping=mapping) if local else []
    where = f"{', '.join(sources)}: "
    with foreign_errors(where):
        session = _session(master)
        connection = load_ibis("spark").pyspark.connect(session)
        tables = [_read(session, connection, shard) for shard in shards]
        tables += [_read_remote(session, connection, source) for source in remote]
        table, became_text = union_of(tables, where=where)

        def stream(expression: Any) -> "Iterator[pa.RecordBatch]":
            result: pa.Table = session.sql(connection.compile(expression)).toArrow()
            return iter(result.to_batches())

        is_text = became_text or (not remote and all(shard.kind == "csv" for shard in shards))
        words = shards[0].translation.words if shards else None
        return sum_table(table, stream, where=where, text_labels=is_text, words=words)


def _session(master: str) -> Any:
    """Start Spark, or use the session that runs already."""
    load_ibis("spark")
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise missing_extra("PySpark", "spark") from error
    builder = SparkSession.builder.master(master)
    settings = _SETTINGS | ({"spark.driver.memory": LOCAL_MEMORY} if master.startswith("local") else {})
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except FdrCoreError:
        raise
    except Exception as error:  # whatever the launcher raises
        if "JAVA" in str(error).upper() and "GATEWAY" in str(error).upper():
            raise MissingExtraError(
                "Spark needs Java 17 or newer and found none; install it (Debian, Ubuntu: apt-get install "
                "openjdk-17-jre-headless) or set JAVA_HOME, or use the engine duckdb, which needs no Java"
            ) from error
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(
            f"Spark could not be started at {master}: {reason}; check the address of the master"
        ) from error


def _read(session: Any, connection: Any, shard: Shard) -> Any:
    """A table of one shard; CSV is text throughout and strict about rows."""
    paths = [_address(str(path)) for path in shard.paths]
    if shard.kind == "parquet":
        return under_our_names(_table(connection, session.read.parquet(*paths)), shard)
    names = [name or f"unused {place}" for place, name in enumerate(shard.columns)]
    schema = ", ".join(f"`{name}` string" for name in names)
    frame = session.read.options(**_CSV_OPTIONS, sep=shard.separator).schema(schema).csv(paths)
    table = _table(connection, frame)
    # Spark tells a quoted empty field from an empty one; here both are missing.
    return named(table.select(**{name: table[name].nullif("") for name in shard.columns if name}), shard)


def _read_remote(session: Any, connection: Any, source: str) -> Any:
    if source.lower().endswith((".csv", ".csv.gz", ".tsv")):
        raise InputError(f"{source} is a CSV file at an address; convert it to Parquet, or copy it here")
    table = _table(connection, session.read.parquet(source))
    check_columns(list(table.columns), where=f"{source}: ")
    return table


def _table(connection: Any, frame: Any) -> Any:
    name = load_ibis("spark").util.gen_name("evenhand")
    frame.createOrReplaceTempView(name)
    return connection.table(name)


def _address(path: str) -> str:
    """A local path as Hadoop reads it: with its scheme, and with nothing in it read as a pattern."""
    escaped = "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in path)
    return f"file://{escaped}"
