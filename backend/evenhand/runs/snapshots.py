"""A project's statistics as bytes that outlive the worker, and back: arrays and JSON, checked, never code."""

import hashlib
import io
import json
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.domain import Project
from evenhand.errors import BackendError
from evenhand.projects.reading import reading_of
from fdr_core import Comparisons, SufficientStatistics
from fdr_core.comparisons import CoinSource

#: Changes with what is written below, so that other versions' snapshots are not read.
FORMAT = 1
DIGEST_BYTES = hashlib.sha256().digest_size
COLUMNS = ("annotator", "left", "right", "outcome", "coin", "weight")
LABELS = ("annotators", "items", "coins")
ODDITIES = (ValueError, KeyError, OSError, EOFError, TypeError, IndexError, zlib.error, MemoryError, OverflowError)


class SnapshotError(BackendError):
    """Bytes that are not a snapshot of this project's statistics."""

    code = "bad_snapshot"


def fingerprint(project: Project, coin_source: CoinSource) -> str:
    """What a snapshot must have been made under: this format, and this way of reading answers."""
    reading = reading_of(project)
    settings = [FORMAT, coin_source, None if reading is None else asdict(reading)]
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=sorted).encode()).hexdigest()


def encode(statistics: SufficientStatistics) -> bytes:
    """The labels in their order and the answers summed; reading them gives the same codes again."""
    answers, coins = statistics.answers(), statistics.coin_labels()
    if int(answers.coin.max(initial=-1)) >= len(coins) or sorted(coins) != list(range(len(coins))):
        raise SnapshotError("some answers have a coin without a label; such statistics are read whole")
    outcomes, code = np.unique(answers.outcome, return_inverse=True)
    arrays: dict[str, Any] = {name: _smallest(getattr(answers, name)) for name in COLUMNS if name != "outcome"}
    arrays |= {"outcomes": outcomes, "outcome": _smallest(code)}
    labels = (statistics.annotators.tolist(), statistics.items.tolist(), [coins[k] for k in range(len(coins))])
    arrays |= {name: _packed(values) for name, values in zip(LABELS, labels, strict=True)}
    file = io.BytesIO()
    np.savez(file, **arrays)
    body = zlib.compress(file.getvalue(), 1)
    return hashlib.sha256(body).digest() + body


def decode(content: bytes, coin_source: CoinSource) -> SufficientStatistics:
    """The statistics that were encoded; raises SnapshotError on any doubt."""
    digest, body = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise SnapshotError("it is damaged")
    try:
        with np.load(io.BytesIO(zlib.decompress(body)), allow_pickle=False) as stored:
            labels = {name: _unpacked(stored[name]) for name in LABELS}
            columns = {name: stored[name].astype(np.int64) for name in COLUMNS}
            outcomes = stored["outcomes"].astype(np.float64)
        columns["outcome"] = outcomes[columns["outcome"]]
    except ODDITIES as error:
        raise SnapshotError(f"it cannot be read ({type(error).__name__})") from error
    _check(columns, {name: len(values) for name, values in labels.items()})
    weight = columns.pop("weight")
    if (weight != 1).any():
        columns = {name: np.repeat(column, weight) for name, column in columns.items()}
    fields: dict[str, Any] = {**labels, **columns}
    return SufficientStatistics().add(Comparisons(**fields, coin_source=coin_source))


def _check(columns: dict[str, NDArray[Any]], sizes: dict[str, int]) -> None:
    """Refuse columns that no statistics could have had."""
    if len({column.shape for column in columns.values()}) != 1 or columns["weight"].ndim != 1:
        raise SnapshotError("its columns differ in length")
    for name, labels in (("annotator", "annotators"), ("left", "items"), ("right", "items"), ("coin", "coins")):
        column = columns[name]
        if len(column) and not 0 <= column.min() <= column.max() < sizes[labels]:
            raise SnapshotError(f"a code of {name} has no label")
    outcome = columns["outcome"]
    if (
        not (np.abs(outcome) <= 1.0).all()
        or (columns["left"] == columns["right"]).any()
        or (columns["weight"] < 1).any()
    ):
        raise SnapshotError("it holds answers that are not comparisons")


def _smallest(column: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in as few bytes as the largest needs."""
    return column.astype(np.min_scalar_type(int(column.max(initial=0))))


def _packed(labels: Sequence[Hashable]) -> NDArray[np.uint8]:
    """Labels as JSON; raises SnapshotError where one is not text."""
    if not all(isinstance(label, str) for label in labels):
        raise SnapshotError("a label is not text; such statistics are read whole")
    return np.frombuffer(json.dumps(labels).encode(), dtype=np.uint8)


def _unpacked(packed: NDArray[Any]) -> NDArray[np.object_]:
    """Labels from JSON; raises ValueError where they are not different texts."""
    values = json.loads(packed.tobytes())
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("labels are texts")
    if len(set(values)) != len(values):
        raise ValueError("a label comes twice")
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    return labels
