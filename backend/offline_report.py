"""The report of an offline analysis, as plain values: what `report.json` holds."""

import hashlib
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy

from fdr_core import Comparisons, Detection, __version__

SCHEMA_VERSION = 1
VERDICTS: Mapping[str, str] = {
    "good": "no lean found",
    "ugly": "leans to one side",
    "bad": "always one side",
    "not assessable": "not assessable yet",
}


def report_of(detection: Detection, comparisons: Comparisons, *, source: Path) -> dict[str, Any]:
    """Gather everything a reader needs to follow and to repeat the analysis; the same file gives the same report."""
    return {
        "schema_version": SCHEMA_VERSION,
        "data": _data(comparisons, source),
        "parameters": plain(detection.parameters),
        "audit": {
            "construction": detection.audit.construction,
            "reasons": list(detection.audit.reasons),
            "remedies": list(detection.audit.remedies),
            "figures": plain(detection.audit.figures),
        },
        "guarantee": {
            "kind": detection.guarantee.kind,
            "sentence": detection.guarantee.sentence,
            "smallest_list": int(detection.smallest_list),
        },
        "annotators": rows(detection.annotators.assign(verdict=detection.annotators["verdict"].map(VERDICTS))),
        "ranking": rows(detection.ranking),
        "order_changes": rows(detection.order_changes),
        "versions": {
            "evenhand": __version__,
            "numpy": np.__version__,
            "pandas": pd.__version__,
            "python": platform.python_version(),
            "scipy": scipy.__version__,
        },
    }


def pseudonymised(report: Mapping[str, Any]) -> dict[str, Any]:
    """Number the annotators in the order of the table, and leave out the file's name."""
    annotators = [{**row, "annotator": f"annotator {k}"} for k, row in enumerate(report["annotators"], start=1)]
    return {**report, "annotators": annotators, "data": {**report["data"], "source": None}}


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Give a table as one mapping per row, of plain values."""
    return [{str(name): plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def plain(value: Any) -> Any:
    """Turn numpy's values into Python's, and what is no finite number into None."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return [plain(inner) for inner in value.tolist()]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Sequence):
        return [plain(inner) for inner in value]
    return str(value)


def _data(comparisons: Comparisons, source: Path) -> dict[str, Any]:
    """Describe the answers and name the file by its content."""
    time = comparisons.time
    return {
        "source": source.name,
        "sha256": _sha256(source),
        "answers": len(comparisons),
        "annotators": comparisons.n_annotators,
        "items": comparisons.n_items,
        "ties": int(np.sum(comparisons.outcome == 0)),
        "coins": int(comparisons.coin.max()) + 1,
        "coin_source": comparisons.coin_source,
        "excluded": plain(comparisons.excluded),
        "first_answer": None if time is None else plain(np.nanmin(time)),
        "last_answer": None if time is None else plain(np.nanmax(time)),
    }


def _sha256(path: Path) -> str:
    """Hash a file in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
