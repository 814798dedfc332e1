"""Additive sufficient statistics: an annotation is an O(1) update, an edit or a deletion an O(1) subtraction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdr_core.answers import Answers, Skipped, Sums, sum_answers
from fdr_core.codes import order_by
from fdr_core.comparisons import CoinSource, Comparisons
from fdr_core.errors import InputError
from fdr_core.inputs.item_keys import drawn_sides, label_keys
from fdr_core.types import Floats, Ints, Words

OWN_COIN = -1


class SufficientStatistics:
    """Everything detection needs to know of the answers, kept current by ``add``, ``remove`` and ``merge``.

    Labels are kept inside; codes follow the order of first appearance. After any sequence of operations the
    statistics equal a rebuild from scratch from the answers that remain.
    """

    def __init__(self) -> None:
        self._annotators: dict[Hashable, int] = {}
        self._items: dict[Hashable, int] = {}
        self._coins: dict[Hashable, int] = {}
        self._next_coin = 0
        self._chunks: list[Answers] = []
        self._single: list[tuple[int, int, int, float, int, float]] = []
        self._folded = 0
        self._sums = sum_answers(Answers.empty(), 0, 0)
        self._needs_compaction = False
        self._is_closed = False
        self._coin_sources: set[CoinSource] = set()
        self._keys_of_coins: Words | None = None
        self._names_of_coins: Sequence[object] = ()
        self._skips: dict[tuple[int, int, int], int] = {}
        self._times: dict[tuple[int | None, ...], float] = {}
        self.excluded: Counter[str] = Counter()

    @classmethod
    def from_comparisons(cls, comparisons: Comparisons) -> SufficientStatistics:
        """Build the statistics of a whole set of comparisons."""
        return cls().add(comparisons)

    @classmethod
    def from_answers(
        cls,
        answers: Answers,
        annotators: Sequence[Hashable],
        items: Sequence[Hashable],
        *,
        coin_source: CoinSource,
        coin_keys: Words | None = None,
        coin_names: Sequence[object] = (),
        excluded: Mapping[str, int] | None = None,
    ) -> SufficientStatistics:
        """Build from answers that were summed elsewhere, coded by position in the labels.

        The order of the rows does not matter. Coins come by the keys of their labels, and by the labels only where
        these tell how they fell, so nothing can be added or merged later.
        """
        statistics = cls()
        statistics._annotators = {label: code for code, label in enumerate(annotators)}
        statistics._items = {label: code for code, label in enumerate(items)}
        rows = _compact(answers, _labels(statistics._annotators), {})
        if coin_source == "own":
            rows = rows.take(np.repeat(np.arange(len(rows)), rows.weight.astype(np.int64)))
            one = np.ones(len(rows))
            own = np.arange(len(rows), dtype=np.int64)
            rows = Answers(rows.annotator, rows.left, rows.right, rows.outcome, own, one)
        else:
            statistics._coin_sources.add(coin_source)
        statistics._chunks.append(rows)
        statistics._next_coin = int(rows.coin.max(initial=-1)) + 1
        statistics._keys_of_coins, statistics._names_of_coins = coin_keys, coin_names
        statistics._is_closed = True
        statistics.excluded.update(excluded or {})
        return statistics

    def add(
        self,
        answers: Comparisons | Hashable,
        left: Hashable = None,
        right: Hashable = None,
        outcome: float | None = None,
        *,
        coin: Hashable = None,
        coin_source: CoinSource = "coin",
    ) -> SufficientStatistics:
        """Add a set of comparisons, or one answer given as annotator, left, right, outcome (and coin)."""
        return self._change(answers, left, right, outcome, coin, coin_source, 1.0)

    def remove(
        self,
        answers: Comparisons | Hashable,
        left: Hashable = None,
        right: Hashable = None,
        outcome: float | None = None,
        *,
        coin: Hashable = None,
        coin_source: CoinSource = "coin",
    ) -> SufficientStatistics:
        """Take back answers that were added before (the same arguments as ``add``)."""
        self._needs_compaction = True
        return self._change(answers, left, right, outcome, coin, coin_source, -1.0)

    def merge(self, other: SufficientStatistics) -> SufficientStatistics:
        """Add the statistics of another shard, matching annotators, items and coins by label."""
        self._refuse_if_closed()
        other._refuse_if_closed()
        theirs = other.answers()
        annotator = _translate(other._annotators, self._annotators)
        item = _translate(other._items, self._items)
        coin = theirs.coin
        if len(coin):
            translated = np.full(other._next_coin, OWN_COIN, dtype=np.int64)
            for label, code in other._coins.items():
                translated[code] = self._coin_code(label)
            coin = translated[coin]
        coin = self._number_own(coin)
        moved = Answers(
            annotator[theirs.annotator], item[theirs.left], item[theirs.right], theirs.outcome, coin, theirs.weight
        )
        for (who, left, right), count in other._skips.items():
            skipped = (int(annotator[who]) if who >= 0 else -1, int(item[left]), int(item[right]))
            self._skips[skipped] = self._skips.get(skipped, 0) + count
        self.excluded.update(other.excluded)
        self._coin_sources |= other._coin_sources
        self._needs_compaction = True
        self._chunks.append(moved)
        return self

    def skip(
        self, left: Hashable, right: Hashable, count: int = 1, *, annotator: Hashable | None = None
    ) -> SufficientStatistics:
        """Note skipped presentations (a negative count takes them back); the audit asks whether sides matter.

        Whoever gave no answer at all counts as unknown.
        """
        who = self._annotators.get(annotator, -1)
        one, two = (self._items.setdefault(item, len(self._items)) for item in (left, right))
        skipped = (who, one, two)
        self._skips[skipped] = self._skips.get(skipped, 0) + count
        return self

    def skip_as_in(self, comparisons: Comparisons, count: int = 1) -> None:
        """Note the skips of comparisons."""
        skips, people, items = comparisons.skips, comparisons.annotators, comparisons.items
        if skips is not None:
            for who, left, right in zip(skips.annotator, skips.left, skips.right, strict=True):
                self.skip(items[left], items[right], count, annotator=people[who] if who >= 0 else None)

    def clear_skips(self) -> None:
        """Forget all skipped presentations."""
        self._skips.clear()

    def note_times(self, shown: Iterable[tuple[Hashable, Hashable, Hashable, Hashable, float]]) -> None:
        """Note when answers were given, as (annotator, left, right, coin, time), in the place of what was noted before.

        Only the audit looks at times; of several answers alike the first counts.
        """
        self._times.clear()
        for annotator, left, right, coin, time in shown:
            codes = (
                self._annotators.get(annotator),
                self._coins.get(coin),
                self._items.get(left),
                self._items.get(right),
            )
            self._times[codes] = min(time, self._times.get(codes, time))

    @property
    def has_times(self) -> bool:
        """Whether times were noted."""
        return bool(self._times)

    def times(self) -> Floats | None:
        """(rows,) when each of the answers was first given, NaN where that is not known; None where nothing is."""
        if not self._times:
            return None
        rows = self.answers()
        keys = zip(*(column.tolist() for column in (rows.annotator, rows.coin, rows.left, rows.right)), strict=True)
        return np.array([self._times.get(key, np.nan) for key in keys])

    def skips(self) -> Skipped:
        """Skipped presentations."""
        return Skipped.of(self._skips)

    @property
    def annotators(self) -> NDArray[np.object_]:
        """Annotator labels, in order of first appearance."""
        return _labels(self._annotators)

    @property
    def items(self) -> NDArray[np.object_]:
        """Item labels, in order of first appearance."""
        return _labels(self._items)

    def coin_labels(self) -> dict[int, Hashable]:
        """Labels of the recorded coins by code; own coins have none."""
        return {code: label for label, code in self._coins.items()}

    def coin_codes(self, labels: Sequence[Hashable]) -> Ints:
        """Codes of these coins' labels, -1 where one never came."""
        return np.array([self._coins.get(label, OWN_COIN) for label in labels], dtype=np.int64)

    def item_codes(self, labels: Sequence[Hashable]) -> Ints:
        """Codes of these items, -1 where one never came."""
        return np.array([self._items.get(label, -1) for label in labels], dtype=np.int64)

    def coin_keys(self) -> Words:
        """Keys of the coins' labels by code; 0 for own coins."""
        keys = np.zeros(self._next_coin, dtype=np.uint64)
        if self._keys_of_coins is not None:
            keys[:] = self._keys_of_coins[: self._next_coin]
        else:
            keys[list(self._coins.values())] = label_keys(self._coins)
        return keys

    def sides_by_seed(self) -> Ints:
        """Of each of the answers, whether its pair stands as the coin's seed has it (`label_keys.drawn_sides`)."""
        rows, names = self.answers(), self._names_of_coins
        if self._coins:
            by_code = np.full(self._next_coin, None, dtype=object)
            by_code[list(self._coins.values())] = np.array([*self._coins, None], dtype=object)[:-1]
            names = by_code.tolist()
        return drawn_sides(names, self.items.tolist(), rows.coin, rows.left, rows.right)

    @property
    def coin_source(self) -> CoinSource:
        """Where coins come from; of several sources the least certain."""
        for source in ("guessed", "task", "coin"):
            if source in self._coin_sources:
                return source
        return "own"

    @property
    def sums(self) -> Sums:
        """The additive sums, brought up to date with all changes so far."""
        self._flush_single()
        fresh = self._chunks[self._folded :]
        if fresh:
            # All at once: adding to a matrix costs as much as the matrix is large, however little is added.
            together = fresh[0] if len(fresh) == 1 else Answers.concatenate(fresh)
            self._sums = self._sums + sum_answers(together, len(self._items), len(self._annotators))
            self._folded = len(self._chunks)
        return self._sums

    def answers(self) -> Answers:
        """The answers themselves, summed per (annotator, coin, left, right, outcome)."""
        _ = self.sums  # the sums must have seen every chunk before the chunks are merged
        if len(self._chunks) != 1 or self._needs_compaction:
            merged = Answers.concatenate(self._chunks) if self._chunks else Answers.empty()
            self._chunks = [_compact(merged, self.annotators, self._coins) if self._needs_compaction else merged]
            self._folded = 1
            self._needs_compaction = False
        return self._chunks[0]

    def __len__(self) -> int:
        return round(self.sums.n)

    def __repr__(self) -> str:
        return (
            f"SufficientStatistics({len(self)} answers, {len(self._annotators)} annotators, {len(self._items)} items)"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SufficientStatistics):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def _content(self) -> dict[tuple[Any, ...], float]:
        """The multiset of answers by label: what two equal statistics have in common whatever their history."""
        coin_labels = self.coin_labels()
        annotators, items = self.annotators, self.items
        content: dict[tuple[Any, ...], float] = {}
        rows = self.answers()
        for a, left, right, y, coin, weight in zip(
            rows.annotator, rows.left, rows.right, rows.outcome, rows.coin, rows.weight, strict=True
        ):
            key = (annotators[a], items[left], items[right], float(y), coin_labels.get(int(coin)))
            content[key] = content.get(key, 0.0) + float(weight)
        return content

    def _change(
        self,
        answers: Any,
        left: Hashable,
        right: Hashable,
        outcome: float | None,
        coin: Hashable,
        coin_source: CoinSource,
        weight: float,
    ) -> SufficientStatistics:
        self._refuse_if_closed()
        if isinstance(answers, Comparisons):
            self._change_many(answers, weight)
        else:
            self._change_one(answers, left, right, outcome, coin, coin_source, weight)
        return self

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise InputError(
                "these statistics were summed by an engine and hold no labels of coins, so that answers can neither be "
                "added nor removed nor merged; sum all files in one go"
            )

    def _change_many(self, comparisons: Comparisons, weight: float) -> None:
        self._flush_single()
        annotator = _codes(comparisons.annotators, self._annotators)[comparisons.annotator]
        item = _codes(comparisons.items, self._items)
        if comparisons.coins is None:
            own = np.full(len(comparisons), OWN_COIN, dtype=np.int64)
            coin = self._number_own(own) if weight > 0 else own
        else:
            self._coin_sources.add(comparisons.coin_source)
            known = np.array([self._coin_code(label) for label in comparisons.coins], dtype=np.int64)
            coin = known[comparisons.coin]
            self._needs_compaction = True
        self.skip_as_in(comparisons, round(weight))
        for reason, count in comparisons.excluded.items():
            self.excluded[reason] += round(weight) * count
        self._chunks.append(
            Answers(
                annotator.astype(np.int64),
                item[comparisons.left],
                item[comparisons.right],
                comparisons.outcome,
                coin,
                np.full(len(comparisons), weight),
            )
        )

    def _change_one(
        self,
        annotator: Hashable,
        left: Hashable,
        right: Hashable,
        outcome: float | None,
        coin: Hashable,
        coin_source: CoinSource,
        weight: float,
    ) -> None:
        if outcome is None or not -1.0 <= outcome <= 1.0:
            raise InputError(
                f"the outcome of an answer was {outcome!r}; expected a number in [-1, 1] (1: left preferred)"
            )
        if left == right:
            raise InputError(f"an answer compares item {left!r} with itself; remove self-comparisons")
        if coin is None:
            code = OWN_COIN
            if weight > 0:
                code, self._next_coin = self._next_coin, self._next_coin + 1
        else:
            self._coin_sources.add(coin_source)
            self._needs_compaction = True
            code = self._coin_code(coin)
        item = self._items
        self._single.append(
            (
                self._annotators.setdefault(annotator, len(self._annotators)),
                item.setdefault(left, len(item)),
                item.setdefault(right, len(item)),
                float(outcome),
                code,
                weight,
            )
        )

    def _flush_single(self) -> None:
        if self._single:
            annotator, left, right, outcome, coin, weight = (
                np.array(column) for column in zip(*self._single, strict=True)
            )
            self._chunks.append(Answers(annotator, left, right, outcome.astype(float), coin, weight))
            self._single = []

    def _coin_code(self, label: Hashable) -> int:
        code = self._coins.get(label)
        if code is None:
            code, self._next_coin = self._next_coin, self._next_coin + 1
            self._coins[label] = code
        return code

    def _number_own(self, coin: Ints) -> Ints:
        """Give every answer that has a coin of its own a fresh code."""
        own = coin == OWN_COIN
        coin = coin.copy()
        coin[own] = self._next_coin + np.arange(int(own.sum()))
        self._next_coin += int(own.sum())
        return coin


def _compact(rows: Answers, annotators: NDArray[np.object_], coins: Mapping[Hashable, int]) -> Answers:
    """Sum rows of equal content and drop what was taken back."""
    if (rows.coin == OWN_COIN).any():
        recorded = np.isin(rows.coin, np.fromiter(coins.values(), dtype=np.int64, count=len(coins)))
        rows = Answers.concatenate([rows.take(recorded), _cancel_own(rows.take(~recorded), annotators)])
    if not len(rows):
        return rows
    order = order_by(rows.annotator, rows.coin)
    if not ((np.diff(rows.annotator[order]) != 0) | (np.diff(rows.coin[order]) != 0)).all():
        order = np.lexsort((rows.outcome, rows.right, rows.left, rows.coin, rows.annotator))
    rows = rows.take(order)
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = (
        (np.diff(rows.annotator) != 0)
        | (np.diff(rows.coin) != 0)
        | (np.diff(rows.left) != 0)
        | (np.diff(rows.right) != 0)
        | (np.diff(rows.outcome) != 0)
    )
    if is_new.all() and (rows.weight > 0).all():
        return rows  # nothing to sum: spares three copies of what may be most of the memory
    starts = np.flatnonzero(is_new)
    weight = np.add.reduceat(rows.weight, starts)
    first = rows.take(starts)
    _refuse_negative(first, weight, annotators)
    kept = Answers(first.annotator, first.left, first.right, first.outcome, first.coin, weight)
    return kept.take(weight > 0)


def _cancel_own(rows: Answers, annotators: NDArray[np.object_]) -> Answers:
    """Match removals of answers that had a coin of their own (no id) with the latest equal answer."""
    order = np.lexsort((-rows.coin, rows.outcome, rows.right, rows.left, rows.annotator))
    rows = rows.take(order)
    content = np.stack([rows.annotator, rows.left, rows.right, (rows.outcome + 0.0).view(np.int64)])
    group = np.concatenate([[0], np.cumsum((np.diff(content, axis=1) != 0).any(axis=0))])
    is_removal = rows.coin == OWN_COIN
    to_cancel = np.bincount(group, is_removal)
    position = np.arange(len(rows)) - np.flatnonzero(np.concatenate([[True], np.diff(group) != 0]))[group]
    available = np.bincount(group, ~is_removal)
    if (to_cancel > available).any():
        bad = int(np.flatnonzero((to_cancel > available)[group] & is_removal)[0])
        _refuse_negative(rows.take(np.array([bad])), np.array([-1.0]), annotators)
    return rows.take(~is_removal & (position >= to_cancel[group]))


def _refuse_negative(rows: Answers, weight: Floats, annotators: NDArray[np.object_]) -> None:
    if (weight < 0).any():
        bad = int(np.flatnonzero(weight < 0)[0])
        raise InputError(
            f"an answer of annotator {annotators[rows.annotator[bad]]!r} with outcome {rows.outcome[bad]:g} was "
            "removed more often than it was added; remove exactly the answers that were added"
        )


def _codes(labels: NDArray[np.object_], vocabulary: dict[Hashable, int]) -> Ints:
    return np.array([vocabulary.setdefault(label, len(vocabulary)) for label in labels.tolist()], dtype=np.int64)


def _translate(source: dict[Hashable, int], target: dict[Hashable, int]) -> Ints:
    return np.array([target.setdefault(label, len(target)) for label in source], dtype=np.int64)


def _labels(vocabulary: dict[Hashable, int]) -> NDArray[np.object_]:
    labels = np.empty(len(vocabulary), dtype=object)
    labels[:] = list(vocabulary)
    return labels
