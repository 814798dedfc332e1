"""What `detect` was given, as one table of answers with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdr_core.answers import Answers, Skipped, Sums, sum_answers
from fdr_core.audit import Audit, AuditInput, audit
from fdr_core.audit.coins import guessed_classes
from fdr_core.codes import joint_codes, mix
from fdr_core.comparisons import Comparisons
from fdr_core.errors import InputError
from fdr_core.inputs.item_keys import label_keys
from fdr_core.randomisation.parts import Told
from fdr_core.statistics import SufficientStatistics
from fdr_core.types import Floats, Ints, Words


@dataclass(frozen=True)
class AnswerTable:
    """The answers with labels, without annotators and items that have no answers left."""

    answers: Answers
    sums: Sums
    annotators: NDArray[np.object_]
    items: NDArray[np.object_]
    statistics: SufficientStatistics
    skips: Skipped
    comparisons: Comparisons | None

    @classmethod
    def of(cls, data: Comparisons | SufficientStatistics) -> AnswerTable:
        """Sum what is not summed yet, and drop who and what has no answers left."""
        if not isinstance(data, (Comparisons, SufficientStatistics)):
            raise InputError(
                f"detect was given a {type(data).__name__}; expected Comparisons or SufficientStatistics: "
                "use Comparisons.from_frame for a DataFrame"
            )
        comparisons = data if isinstance(data, Comparisons) else None
        statistics = SufficientStatistics.from_comparisons(data) if isinstance(data, Comparisons) else data
        answers, sums = statistics.answers(), statistics.sums
        if not len(answers):
            raise InputError("there are no answers; expected at least one comparison")
        skips = statistics.skips()
        annotators, items = statistics.annotators, statistics.items
        alive = sums.counts > 0
        shown = np.zeros(len(items), dtype=bool)
        shown[answers.left] = shown[answers.right] = True
        if not (alive.all() and shown.all()):
            who, what = np.cumsum(alive) - 1, np.cumsum(shown) - 1
            answers = answers.relabel(who, what)
            annotators, items = annotators[alive], items[shown]
            sums = sum_answers(answers, len(items), len(annotators))
            skips = skips.relabel(np.where(alive, who, -1), np.where(shown, what, -1))
        return cls(answers, sums, annotators, items, statistics, skips, comparisons)

    def part_keys(self, coin: Ints) -> Words:
        """What decides into which part of the coins a row comes: the label of its coin, else its pair of items.

        ``coin`` : (rows,) codes by the audit, which joins coins of the same pair; the pair stands for such a coin.
        """
        recorded = self.statistics.coin_keys()[self.answers.coin]
        item = mix(label_keys(self.items))
        pair = item[self.answers.left] + item[self.answers.right]
        return np.where((recorded == 0) | (coin != self.answers.coin), pair, recorded)

    def fold_keys(self, coin: Ints) -> Words:
        """The same for folds of coins, where everybody's own coins about a pair may come into different ones."""
        key, person = self.part_keys(coin), mix(label_keys(self.annotators))[self.answers.annotator]
        is_recorded = (self.statistics.coin_keys()[self.answers.coin] != 0) & (coin == self.answers.coin)
        return np.where(is_recorded, key, key ^ person)

    def told(self) -> Told:
        """What parts of the answers follow: when a coin's first answer of an annotator came, and how long texts are."""
        c = self.comparisons
        if c is None:
            return Told()
        n = int(c.coin.max()) + 1
        unit, first = np.unique(c.annotator.astype(np.int64) * n + c.coin, return_index=True)
        place = np.searchsorted(unit, self.answers.annotator * n + self.answers.coin)
        order = None
        if c.time is not None:
            order = np.full(len(unit), np.inf)
            np.minimum.at(order, np.searchsorted(unit, c.annotator.astype(np.int64) * n + c.coin), c.time)
        length = c.text_length
        return Told(None if order is None else order[place], None if length is None else length[first][place])

    def audited(self, *, q: float = 0.1, method: str = "auto", sides: str = "audit") -> Audit:
        """The audit of every command that judges, so that one file has one finding."""
        return audit(self.audit_input(), q=q, method=method, sides=sides)

    def audit_input(self) -> AuditInput:
        """What the audit looks at."""
        c = self.comparisons
        item_class, class_names = self._classes()
        told = self.statistics.sides_by_seed()
        self._refuse_moved(told)
        return AuditInput(
            self.answers,
            self.sums,
            self.statistics.coin_source,
            self.skips,
            self.statistics.excluded,
            stratum=None if c is None or c.stratum is None else _first_by_coin(c.coin, c.stratum)[self.answers.coin],
            time=self._time_of_coins(),
            shown_at=self.shown_at if self.has_times else None,
            item_class=item_class,
            class_names=class_names,
            drawn_share=float(self.answers.weight @ (told > 0) / self.sums.n),
            coin_column="" if c is None else c.coin_column,
        )

    def _time_of_coins(self) -> Floats | None:
        """(rows,) of the first answer under the coin, where known."""
        c, noted = self.comparisons, self.statistics.times()
        if noted is not None:
            of_coin = np.full(int(self.answers.coin.max()) + 1, np.inf)
            np.minimum.at(of_coin, self.answers.coin, np.where(np.isnan(noted), np.inf, noted))
            return np.where(np.isinf(of_coin), np.nan, of_coin)[self.answers.coin]
        return None if c is None or c.time is None else _first_by_coin(c.coin, c.time)[self.answers.coin]

    @property
    def has_times(self) -> bool:
        """Whether anything tells when answers were given."""
        return self.statistics.has_times or (self.comparisons is not None and self.comparisons.time is not None)

    def shown_at(self) -> Floats:
        """(rows,) when the annotator first saw the pair so, under its coin; NaN where that is not known."""
        c, rows, n = self.comparisons, self.answers, len(self.answers)
        if c is None or c.time is None:
            noted = self.statistics.times()
            return np.full(n, np.nan) if noted is None else noted
        columns = ((rows.annotator, c.annotator), (rows.coin, c.coin), (rows.left, c.left), (rows.right, c.right))
        shown = np.zeros(n + len(c), dtype=np.int64)
        for of_rows, of_answers in columns:
            shown = joint_codes(shown, np.concatenate([of_rows, of_answers]))
        first = np.full(int(shown.max()) + 1, np.inf)
        np.minimum.at(first, shown[n:], np.where(np.isnan(c.time), np.inf, c.time))
        return np.where(np.isinf(first), np.nan, first)[shown[:n]]

    def _refuse_moved(self, told: Ints) -> None:
        """Raise where a pair does not stand as the seed of its coin has it; ``told`` by `sides_by_seed`."""
        moved = np.flatnonzero(told < 0)
        if len(moved):
            names = self.statistics.coin_labels()
            coins = list(dict.fromkeys(str(names.get(code, code)) for code in self.answers.coin[moved].tolist()))
            named = f"{', '.join(coins[:3])}{' ...' if len(coins) > 3 else ''}"
            raise InputError(
                f"{len(moved):,} answers, under the coins {named}, show another item left than the seed in the coin's "
                "name; items were moved after the coins were drawn: restore the tasks, or read them without it"
            )

    def _classes(self) -> tuple[Ints | None, Sequence[str]]:
        """Class of every item: as named by the caller, else guessed from the items' names."""
        c = self.comparisons
        if c is None or c.item_class is None:
            return guessed_classes(self.items) or (None, ())
        of = dict(zip(c.items, c.item_class, strict=True))
        names, code = np.unique([str(of[item]) for item in self.items], return_inverse=True)
        return np.asarray(code, dtype=np.int64), names.tolist()


def _first_by_coin(coin: Ints, values: NDArray[Any]) -> NDArray[Any]:
    """The value of the first answer under every coin; statistics of comparisons number coins as these do."""
    first = np.zeros(int(coin.max(initial=-1)) + 1, dtype=values.dtype)
    first[coin[::-1]] = values[::-1]
    return first
