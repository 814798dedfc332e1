"""Parquet files: how large they would become, their columns, and some of these as a table."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fdr_core.errors import MissingExtraError

Content = bytes | Path
_BYTES_PER_CELL = 8
_NESTED_ROWS = 256


def size(content: Content) -> tuple[int, int]:
    """Rows, and bytes in memory, as the file's own footer tells them; texts are kept once each (see `read`)."""
    metadata = _open(content).metadata
    groups = [metadata.row_group(position) for position in range(metadata.num_row_groups)]
    n_bytes = sum(group.total_byte_size for group in groups)
    return metadata.num_rows, n_bytes + _BYTES_PER_CELL * metadata.num_rows


def names(content: Content) -> list[str]:
    """The columns."""
    return [str(name) for name in _open(content).schema_arrow.names]


def first_rows(content: Content, n: int) -> list[Mapping[str, Any]]:
    """A few rows."""
    for batch in _open(content).iter_batches(batch_size=n):
        rows: list[Mapping[str, Any]] = batch.to_pylist()
        return rows
    return []


def nested_sizes(content: Content, columns: Sequence[str]) -> Iterator[int]:
    """Bytes that nested columns have unfolded to, batch by batch: the footer does not tell of texts inside lists."""
    import pyarrow.types

    file = _open(content)
    nested = [name for name in columns if pyarrow.types.is_nested(file.schema_arrow.field(name).type)]
    total = 0
    for batch in file.iter_batches(batch_size=_NESTED_ROWS, columns=nested) if nested else ():
        total += batch.nbytes
        yield total


def read(content: Content, columns: Sequence[str]) -> pd.DataFrame:
    """Read some columns. A text that occurs often is held once, so that a small file cannot unfold into a large one."""
    import pyarrow.parquet

    source = io.BytesIO(content) if isinstance(content, bytes) else content
    schema = _open(content).schema_arrow
    texts = [name for name in columns if pyarrow.types.is_string(schema.field(name).type)]
    table = pyarrow.parquet.read_table(source, columns=list(columns), read_dictionary=texts)
    table.validate(full=True)  # otherwise text that is not UTF-8 would be found much later
    frame: pd.DataFrame = table.to_pandas()
    return frame.astype({name: object for name in texts if name in frame})


def _open(content: Content) -> Any:
    try:
        import pyarrow.parquet  # heavy, and needed for this format only
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files need Arrow; install it with `pip install 'evenhand[files]'`, or save the file as CSV"
        ) from error
    return pyarrow.parquet.ParquetFile(io.BytesIO(content) if isinstance(content, bytes) else content)
