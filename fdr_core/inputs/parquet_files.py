"""Files that Arrow reads (Parquet, data sets saved to disk, plain JSON lines): size, columns, some as a table."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fdr_core.errors import InputError, MissingExtraError

Content = bytes | Path
_BYTES_PER_CELL = 8
_NESTED_ROWS = 256


def size(content: Content) -> tuple[int, int]:
    """Rows, and bytes in memory, as the file's own footer tells them; texts are kept once each (see `read`)."""
    if _is_folder(content):
        table = _saved(content)
        return table.num_rows, table.nbytes
    metadata = _open(content).metadata
    groups = [metadata.row_group(position) for position in range(metadata.num_row_groups)]
    n_bytes = sum(group.total_byte_size for group in groups)
    return metadata.num_rows, n_bytes + _BYTES_PER_CELL * metadata.num_rows


def names(content: Content) -> list[str]:
    """The columns."""
    schema = _saved(content).schema if _is_folder(content) else _open(content).schema_arrow
    return [str(name) for name in schema.names]


def first_rows(content: Content, n: int) -> list[Mapping[str, Any]]:
    """A few rows."""
    if _is_folder(content):
        few: list[Mapping[str, Any]] = _saved(content).slice(0, n).to_pylist()
        return few
    for batch in _open(content).iter_batches(batch_size=n):
        rows: list[Mapping[str, Any]] = batch.to_pylist()
        return rows
    return []


def nested_sizes(content: Content, columns: Sequence[str]) -> Iterator[int]:
    """Bytes that nested columns have unfolded to, batch by batch: the footer does not tell of texts inside lists."""
    import pyarrow.types

    if _is_folder(content):
        return  # its files are not packed
    file = _open(content)
    nested = [name for name in columns if pyarrow.types.is_nested(file.schema_arrow.field(name).type)]
    total = 0
    for batch in file.iter_batches(batch_size=_NESTED_ROWS, columns=nested) if nested else ():
        total += batch.nbytes
        yield total


def read(content: Content, columns: Sequence[str]) -> pd.DataFrame:
    """Read some columns. A text that occurs often is held once, so that a small file cannot unfold into a large one."""
    import pyarrow.parquet

    if _is_folder(content):
        saved: pd.DataFrame = _saved(content).select(list(columns)).to_pandas()
        return saved
    source = io.BytesIO(content) if isinstance(content, bytes) else content
    schema = _open(content).schema_arrow
    texts = [name for name in columns if pyarrow.types.is_string(schema.field(name).type)]
    table = pyarrow.parquet.read_table(source, columns=list(columns), read_dictionary=texts)
    table.validate(full=True)  # otherwise text that is not UTF-8 would be found much later
    frame: pd.DataFrame = table.to_pandas()
    return frame.astype({name: object for name in texts if name in frame})


def flat_lines(content: Content, columns: Sequence[str]) -> pd.DataFrame | None:
    """Some columns of a file of JSON lines; None without Arrow, and where a column holds more than plain values."""
    try:
        import pyarrow
        from pyarrow import json as arrow_json
    except ImportError:
        return None
    try:
        table = arrow_json.read_json(
            io.BytesIO(content) if isinstance(content, bytes) else str(content),
            read_options=arrow_json.ReadOptions(block_size=1 << 24),
        )
        if not set(columns) <= set(table.column_names):
            return None
        chosen = table.select(list(columns))
        if any(pyarrow.types.is_nested(kind) or pyarrow.types.is_temporal(kind) for kind in chosen.schema.types):
            return None
        chosen.validate(full=True)  # text that is not UTF-8 would be found much later
        frame: pd.DataFrame = chosen.to_pandas()
        return frame
    except pyarrow.lib.ArrowException:
        return None  # records are read one by one, which can tell the line


def _is_folder(content: Content) -> bool:
    return isinstance(content, Path) and content.is_dir()


def _saved(folder: Content) -> Any:
    """A data set that `datasets` saved to disk: Arrow streams, named in state.json."""
    assert isinstance(folder, Path)
    if (folder / "dataset_dict.json").exists():
        splits = ", ".join(json.loads((folder / "dataset_dict.json").read_text())["splits"])
        raise InputError(f"{folder} holds several splits; give the folder of one of them: {splits}")
    if not (folder / "state.json").exists():
        raise InputError(f"{folder} is a folder; expected a file, or a data set saved with save_to_disk; give one file")
    _arrow()
    import pyarrow

    names = [entry["filename"] for entry in json.loads((folder / "state.json").read_text())["_data_files"]]
    if any(Path(name).name != name for name in names):
        raise InputError(f"{folder}/state.json names files outside its folder; save the data set again")
    tables = []
    for name in names:
        with pyarrow.memory_map(str(folder / name)) as stream, pyarrow.ipc.open_stream(stream) as reader:
            tables.append(reader.read_all())
    return pyarrow.concat_tables(tables)


def _arrow() -> Any:
    try:
        import pyarrow.parquet  # heavy, and needed for this format only
    except ImportError as error:
        raise MissingExtraError(
            "Parquet files need Arrow; install it with `pip install 'evenhand[files]'`, or save the file as CSV"
        ) from error
    return pyarrow.parquet


def _open(content: Content) -> Any:
    return _arrow().ParquetFile(io.BytesIO(content) if isinstance(content, bytes) else content)
