"""Engines: the sums of many answers without loading them, by one Ibis expression on DuckDB or Spark.

    read_statistics(["answers/"], engine="duckdb")                        in this process, larger than memory
    read_statistics(["hdfs://…"], engine="spark", master="spark://…")     on a cluster
    sum_table(table, stream, where=…)                                     any other Ibis table
    sum_comparisons(comparisons)                                          the same for answers in memory

All end in the same statistics: labels and answers are put into a fixed order, so that the same seed draws the
same coins, whichever engine read them and in whatever order. What an engine reads are sums: times and durations of
single answers, and hence the evidence made of them, are left out.
"""

from collections.abc import Mapping, Sequence

from fdr_core.engines.assembly import sum_comparisons
from fdr_core.engines.expression import sum_table
from fdr_core.errors import ConfigurationError
from fdr_core.statistics import SufficientStatistics

__all__ = ["FILE_ENGINES", "read_statistics", "sum_comparisons", "sum_table"]

FILE_ENGINES = ("duckdb", "spark")


def read_statistics(
    sources: Sequence[str],
    *,
    engine: str = "duckdb",
    master: str | None = None,
    memory_limit: str | None = None,
    mapping: Mapping[str, str] | None = None,
) -> SufficientStatistics:
    """
    Sum the answers of files.

    Parameters
    ----------
    sources : sequence of str
        CSV (also gzipped) and Parquet files, folders and glob patterns of them; on Spark also addresses of Parquet
        data such as ``hdfs://…``. Columns as in `Comparisons.from_frame`.
    engine : {"duckdb", "spark"}
    master : str, optional
        Address of the Spark cluster; ``local[*]`` by default.
    memory_limit : str, optional
        Of DuckDB, such as ``"4GB"``; half of the machine's memory by default. Beyond it DuckDB uses the disk.

    mapping : mapping, optional
        From our columns to those of the files. Without it, our own columns are expected, or those of Chatbot Arena or
        evalica.

    Raises
    ------
    InputError
        For files that cannot be read and answers that are not comparisons, with the value seen and how often.
    MissingExtraError
        Where the engine, or the Java that Spark needs, is not installed.
    """
    if engine == "duckdb":
        from fdr_core.engines.duck import sum_files

        return sum_files(sources, memory_limit=memory_limit, mapping=mapping)
    if engine == "spark":
        from fdr_core.engines.spark import sum_files as sum_files_on_spark

        return sum_files_on_spark(sources, master=master or "local[*]", mapping=mapping)
    raise ConfigurationError(f"engine was {engine!r}; expected one of {', '.join(FILE_ENGINES)}")
