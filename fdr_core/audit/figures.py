"""The figures of a design, and who has enough answers to be judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fdr_core import least_evidence
from fdr_core.answers import Answers, Skipped, Sums
from fdr_core.audit.coins import CoinUse, coins_per_annotator
from fdr_core.codes import distinct_partners, joint_codes
from fdr_core.design import components_of, information_left, item_solver
from fdr_core.types import Floats, Ints, Mask

#: Fewer distinct coins than this, shared between annotators, deserve a word beside every flag.
FEW_COINS = 100


@dataclass(frozen=True)
class AuditInput:
    """What the audit looks at.

    Attributes
    ----------
    answers, sums : the answers and their sums.
    coin_source : "coin" (recorded), "task" (one per task), "guessed" (from a column, its name where it is known) or
        "own" (one per answer).
    skips : the skipped presentations.
    excluded : answers left out, by reason.
    stratum, time : (rows,) of the answers, where known: batches that may have been prepared apart.
    shown_at : gives (rows,) times at which the annotator first saw the pair so, where answers carry times.
    drawn_share : share of the answers whose sides follow from the seed that their coin names.
    item_class : (items,) where known: who wrote the item, or the like; class_names : of its codes.
    """

    answers: Answers
    sums: Sums
    coin_source: str
    skips: Skipped = field(default_factory=partial(Skipped.of, {}))
    excluded: Mapping[str, int] = field(default_factory=dict)
    stratum: Ints | None = None
    time: Floats | None = None
    shown_at: Callable[[], Floats] | None = None
    item_class: Ints | None = None
    class_names: Sequence[str] = ()
    drawn_share: float = 0.0
    coin_column: str = ""


def describe(answers: Answers, data: AuditInput, both_orders_share: float) -> dict[str, Any]:
    """Count what the audit decides on and reports; ``answers`` under the coins as they are used."""
    sums = data.sums
    n_items, n_annotators = sums.pairs.shape[0], len(sums.counts)
    use = CoinUse.of(answers)
    used = sums.counts[sums.counts > 0]
    return {
        "answers": round(sums.n),
        "annotators": n_annotators,
        "items": n_items,
        "coins": use.n_coins,
        "coin_source": data.coin_source,
        "drawn_by_seed": round(data.drawn_share, 4),
        "shared_coins": use.is_shared,
        "few_coins": use.is_shared and use.n_coins < FEW_COINS,
        "shared_answers": round(use.shared_answers, 4),
        "both_orders_answers": round(both_orders_share, 4),
        "components": int(components_of(sums.laplacian).max(initial=-1) + 1),
        "left_share": round(float((answers.weight * (answers.outcome > 0)).sum() / sums.n), 4),
        "right_share": round(float((answers.weight * (answers.outcome < 0)).sum() / sums.n), 4),
        "one_orientation_pairs": _one_orientation_pairs(sums),
        **_items_by_side(answers, use, n_items),
        "answers_median": float(np.median(used)),
        "answers_90th_percentile": float(np.quantile(used, 0.9)),
        "excluded": dict(data.excluded),
        "skips": round(data.skips.count.sum()),
    }


def _items_by_side(answers: Answers, use: CoinUse, n_items: int) -> dict[str, Any]:
    """Items that stood on one side only, or under one coin only."""
    left = np.bincount(answers.left, answers.weight, minlength=n_items)
    right = np.bincount(answers.right, answers.weight, minlength=n_items)
    coins_of_item = _coins_of_items(answers, use, n_items)
    one_sided = (left == 0) | (right == 0)
    doubt = float(np.maximum(coins_of_item[one_sided] - 1, 0).sum())
    return {
        "items_on_one_side": int(one_sided.sum()),
        "items_under_one_coin": round(float((coins_of_item <= 1).mean()), 4),
        "sides_never_swapped": bool(one_sided.all() and doubt >= 10),
    }


def _coins_of_items(answers: Answers, use: CoinUse, n_items: int) -> Ints:
    """Under how many coins every item was shown."""
    if use.are_own:
        return np.bincount(answers.left, minlength=n_items) + np.bincount(answers.right, minlength=n_items)
    shown = np.concatenate([answers.left, answers.right])
    return distinct_partners(shown, np.concatenate([use.coin, use.coin]), n_items)


def _one_orientation_pairs(sums: Sums) -> int:
    """Pairs seen at least twice, always in one orientation."""
    both = sums.pairs + sums.pairs.T
    swapped = sums.pairs.multiply(sums.pairs.T)
    repeated = (both > 1).astype(int)
    return int((repeated.sum() - repeated.multiply(swapped > 0).sum()) // 2)


@dataclass(frozen=True)
class Enough:
    """Who has enough answers to be judged, and about how many more each of the others would need."""

    is_so: Mask
    more_needed: Ints

    def or_so(self, also: Mask) -> Enough:
        """The same with others who have enough."""
        return Enough(self.is_so | also, np.where(also, 0, self.more_needed))


def enough_coins(answers: Answers, n_annotators: int) -> Enough:
    """Whoever met as many coins as a flag rests on: what is judged must not depend on how the coins fell."""
    missing = np.maximum(least_evidence.UNITS - coins_per_annotator(answers, n_annotators), 0)
    return Enough(missing == 0, missing.astype(np.int64))


def enough_pairs(answers: Answers, n_annotators: int) -> Mask:
    """Whoever compared as many different pairs: enough for a model of judging where few coins decided."""
    low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    pairs = distinct_partners(answers.annotator, joint_codes(low, high), n_annotators)
    return np.asarray(pairs >= least_evidence.UNITS)


def enough_beside_items(answers: Answers, sums: Sums, q: float) -> Enough:
    """Sides held fixed, without a ridge: enough for an exact sign-flip test to reach p <= q by what theta leaves."""
    n_annotators = len(sums.counts)
    left = information_left(sums, np.arange(n_annotators), item_solver(sums.laplacian))
    needed = 1.0 + math.log2(1.0 / q)  # 2^(1 - coins) <= q
    missing = np.maximum(needed - coins_per_annotator(answers, n_annotators) * left, 0.0)
    return Enough(missing == 0, np.ceil(missing / np.clip(left, 0.1, 1.0) - 1e-9).astype(np.int64))
