"""From counted kinds of answers to statistics, in an order that depends on the answers alone."""

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core.answers import Answers
from fdr_core.comparisons import CoinSource, Comparisons
from fdr_core.errors import InputError
from fdr_core.inputs.columns import choice_numbers, is_tie_marker, outcome_numbers, show
from fdr_core.inputs.item_keys import label_keys, told_by
from fdr_core.inputs.rows import outcomes_of
from fdr_core.inputs.tables import as_integers
from fdr_core.statistics import SufficientStatistics
from fdr_core.types import Floats, Ints, Words

if TYPE_CHECKING:
    import pyarrow as pa

Codes = NDArray[np.int32]

_LABELLED = {"annotator": "annotator", "left": "left item", "right": "right item"}
#: Whole numbers that 64 bits hold.
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")
_REPLACEMENT = "\ufffd"


def sum_comparisons(comparisons: Comparisons) -> SufficientStatistics:
    """Sum answers in memory as the engines do; skips come along."""
    who, annotators = _in_order(comparisons.annotators.tolist())
    what, items = _in_order(comparisons.items.tolist())
    coin, keys = np.zeros(len(comparisons), dtype=np.int64), None
    names: Sequence[object] = ()
    if comparisons.coins is not None:
        labels = comparisons.coins.tolist()
        ranks = _ranks([str(label) for label in labels])
        coin, keys = ranks[comparisons.coin], _by_rank(label_keys(labels), ranks)
        names = _telling(labels, ranks)
    rows = Answers(
        who[comparisons.annotator],
        what[comparisons.left],
        what[comparisons.right],
        comparisons.outcome,
        coin,
        np.ones(len(comparisons)),
    )
    summed = SufficientStatistics.from_answers(
        rows,
        annotators,
        items,
        coin_source=comparisons.coin_source,
        coin_keys=keys,
        coin_names=names,
        excluded=comparisons.excluded,
    )
    summed.skip_as_in(comparisons)
    return summed


class Assembly:
    """Takes batches of (annotator, left, right, answer, coin, task, n), codes them, and checks them at the end."""

    def __init__(self, *, answer: str, where: str, text_labels: bool, words: Mapping[str, float] | None = None) -> None:
        self._words = words
        self._answer, self._where, self._text_labels = answer, where, text_labels
        self._annotators: dict[Hashable, int] = {}
        self._items: dict[Hashable, int] = {}
        self._values: dict[Hashable, int] = {}
        self._codes: dict[str, list[Codes]] = {"annotator": [], "left": [], "right": [], "answer": []}
        self._coins: dict[str, list[pa.Array]] = {}
        self._counts: list[Ints] = []

    def add(self, batch: "pa.RecordBatch") -> None:
        """Code one batch; labels are looked up once per distinct label and batch."""
        if not batch.num_rows:
            return
        seen = {"annotator": self._annotators, "left": self._items, "right": self._items, "answer": self._values}
        for name, vocabulary in seen.items():
            self._codes[name].append(_encode(batch.column(name), vocabulary))
        for name in ("coin", "task"):
            if name in batch.schema.names:
                self._coins.setdefault(name, []).append(_wide(batch.column(name)))
        self._counts.append(batch.column("n").to_numpy(zero_copy_only=False).astype(np.int64))

    def finish(self, excluded: Mapping[str, int] | None = None) -> SufficientStatistics:
        """Check everything and sum."""
        if not self._counts:
            raise InputError(
                f"{self._where}there are no answers; expected at least one comparison; "
                "check that the right files were given and that work has begun"
            )
        count = np.concatenate(self._counts)
        codes = {name: np.concatenate(parts) for name, parts in self._codes.items()}
        self._codes.clear()
        self._refuse_missing(codes, count)
        outcome = self._outcomes(codes, count)
        self._refuse_self_comparisons(codes, count)
        coin, keys, names, source = self._coin(count)
        self._coins.clear()
        self._counts.clear()
        who, annotators = _in_order(self._labels(self._annotators))
        what, items = _in_order(self._labels(self._items))
        rows = Answers(
            who[codes.pop("annotator")],
            what[codes.pop("left")],
            what[codes.pop("right")],
            outcome,
            coin,
            count.astype(np.float64),
        )
        return SufficientStatistics.from_answers(
            rows, annotators, items, coin_source=source, coin_keys=keys, coin_names=names, excluded=excluded
        )

    def _choices(self, values: Sequence[Hashable]) -> Floats:
        """The outcomes of words: our own three, or those of another tool."""
        if self._words is None:
            return choice_numbers(np.array([*values, None], dtype=object)[:-1])
        return outcomes_of(values, self._words)

    def _labels(self, vocabulary: Mapping[Hashable, int]) -> list[Hashable]:
        """Labels by code; text that a file wrote as integers becomes integers, all or none."""
        labels = np.array([*vocabulary, None], dtype=object)[:-1]
        if self._text_labels and any(_REPLACEMENT in str(label) for label in labels):
            bad = next(label for label in labels if _REPLACEMENT in str(label))
            raise InputError(
                f"{self._where}the label {show(bad)} is not UTF-8 text; save the files again with the encoding UTF-8"
            )
        return list(as_integers(labels) if self._text_labels else labels)

    def _refuse_missing(self, codes: Mapping[str, Codes], count: Ints) -> None:
        for name, word in {**_LABELLED, "answer": self._answer}.items():
            missing = int(count[codes[name] < 0].sum())
            if missing:
                raise InputError(
                    f"{self._where}no {word} for {missing} of {_answers(count.sum())}; every answer needs one: "
                    "fill it in or remove the rows"
                )

    def _outcomes(self, codes: Mapping[str, Codes], count: Ints) -> Floats:
        """Read each distinct answer once, by the rules of the loader in memory."""
        values = list(self._values)
        if self._answer == "label":
            outcome, expected = self._winners(codes), "the row's left or right item, or tie"
        elif self._answer == "choice":
            outcome, expected = self._choices(values), "left, right or tie"
            outcome = outcome[codes["answer"]]
        else:
            if all(isinstance(value, bool) or str(value).lower() in ("true", "false") for value in values):
                raise InputError(
                    f"{self._where}outcome holds true/false; expected numbers from -1 (right) to 1 (left); "
                    "write 1 and -1, or use a column `choice` with left, right and tie"
                )
            outcome, expected = outcome_numbers(pd.Series(values)), "a number from -1 (right preferred) to 1 (left)"
            outcome = outcome[codes["answer"]]
        bad = np.isnan(outcome)
        if bad.any():
            seen = codes["answer"][bad]
            commonest = int(np.argmax(np.bincount(seen, count[bad])))
            raise InputError(
                f"{self._where}the {self._answer} of {_answers(count[bad].sum())} cannot be read, such as "
                f"{show(values[commonest])}; expected {expected}; correct or remove such rows"
            )
        return outcome

    def _winners(self, codes: Mapping[str, Codes]) -> Floats:
        """Crowd-kit's label: the item that won, or a word for a tie."""
        item = np.array([self._items.get(value, -1) for value in self._values], dtype=np.int64)[codes["answer"]]
        is_tie = np.array([is_tie_marker(value) for value in self._values], dtype=bool)[codes["answer"]]
        outcome = np.where(is_tie, 0.0, np.nan)
        outcome[item == codes["right"]] = -1.0
        outcome[item == codes["left"]] = 1.0
        return outcome

    def _refuse_self_comparisons(self, codes: Mapping[str, Codes], count: Ints) -> None:
        same = codes["left"] == codes["right"]
        if same.any():
            item = list(self._items)[int(codes["left"][np.argmax(same)])]
            raise InputError(
                f"{self._where}an item is compared with itself in {_answers(count[same].sum())}, such as {show(item)}; "
                "remove self-comparisons"
            )

    def _coin(self, count: Ints) -> tuple[Ints, Words | None, Sequence[object], CoinSource]:
        """Take the recorded coin, else the task, else one coin per answer; an empty column counts as none.

        Codes by row, keys by code, and names by code where these tell how a coin fell.
        """
        import pyarrow as pa

        sources: tuple[CoinSource, ...] = ("coin", "task")
        for source in sources:
            column = pa.chunked_array(self._coins[source]) if source in self._coins else None
            if column is None or column.null_count == len(column):
                continue
            if column.null_count:
                missing = int(count[column.is_null().to_numpy()].sum())
                raise InputError(
                    f"{self._where}no {source} for {missing} of {_answers(count.sum())}; every answer needs one: "
                    f"fill it in, remove the rows, or drop the column `{source}`"
                )
            encoded = column.combine_chunks().dictionary_encode()
            ranks = _ranks_of(encoded.dictionary)
            labels = encoded.dictionary.to_pylist()
            keys = _by_rank(label_keys(labels), ranks)
            return ranks[encoded.indices.to_numpy()], keys, _telling(labels, ranks), source
        return np.zeros(len(count), dtype=np.int64), None, (), "own"


def _telling(labels: Sequence[object], ranks: Ints) -> Sequence[object]:
    """Labels in the order of the ranks, if any of them tells how its coin fell."""
    if not any(told_by(label) for label in labels):
        return ()
    return [labels[place] for place in np.argsort(ranks)]


def _by_rank(keys: Words, ranks: Ints) -> Words:
    """Keys in the order of the ranks."""
    ordered = np.empty_like(keys)
    ordered[ranks] = keys
    return ordered


def _answers(number: float) -> str:
    """A count of answers."""
    return "1 answer" if number == 1 else f"{int(number)} answers"


def _encode(column: "pa.Array", vocabulary: dict[Hashable, int]) -> Codes:
    """Code a column, -1 where a label is missing."""
    encoded = column.dictionary_encode()
    labels = encoded.dictionary.to_pylist()
    known = [-1 if label != label else vocabulary.setdefault(label, len(vocabulary)) for label in labels]
    indices = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    codes: Codes = np.array([*known, -1], dtype=np.int32)[indices]
    return codes


def _wide(column: "pa.Array") -> "pa.Array":
    """Coins are kept as they are until the end; text may exceed what 32-bit offsets reach."""
    import pyarrow as pa

    return column.cast(pa.large_string()) if pa.types.is_string(column.type) else column


def _in_order(labels: Sequence[Hashable]) -> tuple[Ints, list[Hashable]]:
    """The place of each label in the order of labels, and the labels in that order."""
    ranks = _ranks([str(label) for label in labels])
    ordered: list[Hashable] = [None] * len(labels)
    for rank, label in zip(ranks.tolist(), labels, strict=True):
        ordered[rank] = label
    return ranks, ordered


def _ranks(texts: list[str]) -> Ints:
    """As `_ranks_of`, of few labels and without Arrow."""
    keys: list[Any] = [int(text) for text in texts] if all(map(_WHOLE.fullmatch, texts)) else texts
    ranks = np.empty(len(texts), dtype=np.int64)
    ranks[sorted(range(len(texts)), key=keys.__getitem__)] = np.arange(len(texts))
    return ranks


def _ranks_of(labels: "pa.Array") -> Ints:
    """Places in numerical order where all labels are whole numbers, however they are written; else by text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = labels if pa.types.is_large_string(labels.type) else pc.cast(labels, pa.large_string())
    is_whole = pc.match_substring_regex(texts, f"^({_WHOLE.pattern})$")
    keys: Any = pc.cast(texts, pa.int64()) if pc.all(is_whole, min_count=0).as_py() else texts
    order = pc.sort_indices(keys).to_numpy()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
