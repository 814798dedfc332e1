"""Which item of a pair is better, from a column, from chosen people, or from answers marked as ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError, InputError
from fdr_core.inputs.columns import choice_numbers
from fdr_core.other_leans.features import Feature, pair_codes, refuse_unturned
from fdr_core.types import Floats, Mask

GROUND_TRUTH = "ground_truth"
#: Gold or a feature that is decided by the others to this degree leaves nothing to estimate.
_FIXED = 0.98


@dataclass(frozen=True)
class Gold:
    """
    What is known of quality.

    Attributes
    ----------
    z : (N,) quality of left over right in [-1, 1]; NaN where it is not known.
    is_judged : (N,) answers that are judged: not those of the reference.
    words : where it comes from.
    """

    z: Floats
    is_judged: Mask
    words: str


def read_gold(data: Comparisons, gold: Any = None, reference: Sequence[object] = ()) -> Gold | None:
    """
    Read the quality of every pair.

    Parameters
    ----------
    gold : str or (N,) array-like, optional
        A column with left, right or tie, numbers from -1 (right) to 1 (left), or the label of the better item; or
        "ground_truth": answers that Label Studio marks so.
    reference : sequence of labels, optional
        People whose mean answer is the quality; they are not judged.

    Returns
    -------
    Gold, or None where nothing is given
    """
    if gold is not None and len(reference):
        raise ConfigurationError("found both gold and reference; expected one of them; drop the other")
    if len(reference):
        known = set(data.annotators)
        unknown = [label for label in reference if label not in known]
        if unknown:
            raise ConfigurationError(f"reference names {unknown[0]!r}, who gave no answer; name annotators of the data")
        refers = np.isin(
            np.arange(data.n_annotators), [k for k, a in enumerate(data.annotators) if a in set(reference)]
        )
        return _from_answers(data, refers[data.annotator], "chosen people")
    if gold is None:
        return None
    if isinstance(gold, str) and gold == GROUND_TRUTH:
        if data.features is None or "is_ground_truth" not in data.features:
            raise InputError("no answer tells whether it is ground truth; export the project from Label Studio as JSON")
        return _from_answers(data, data.features["is_ground_truth"].to_numpy(dtype=bool), "answers marked ground truth")
    z, words = _from_column(data, gold)
    pair, forward = pair_codes(data)
    refuse_unturned(z, pair, forward, "gold")
    return Gold(z, ~np.isnan(z), words)


def _from_answers(data: Comparisons, refers: Mask, words: str) -> Gold:
    """The mean answer of some to each pair is the quality for the others."""
    if not refers.any() or refers.all():
        raise InputError(
            f"{'all' if refers.any() else 'none'} of the answers are {words}; expected some that refer and others that "
            "are judged; name the people who refer as reference"
        )
    pair, forward = pair_codes(data)
    n = int(pair.max()) + 1
    count = np.bincount(pair[refers], minlength=n)
    total = np.bincount(pair[refers], (data.outcome * forward)[refers], n)
    mean = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
    z = mean[pair] * forward
    return Gold(z, ~refers & ~np.isnan(z), words)


def _from_column(data: Comparisons, gold: Any) -> tuple[Floats, str]:
    if isinstance(gold, str):
        if data.features is None or gold not in data.features:
            offered = "none" if data.features is None else ", ".join(map(str, data.features.columns))
            raise InputError(f"there is no column {gold}; found: {offered}; name a column with the better item's side")
        column, words = data.features[gold], f"the column {gold}"
    else:
        column, words = pd.Series(gold).reset_index(drop=True), "gold as given"
        if len(column) != len(data):
            raise InputError(
                f"gold has {len(column):,} values and there are {len(data):,} answers; give one per answer"
            )
    z = np.array(pd.to_numeric(column, errors="coerce"), dtype=np.float64)
    is_item = np.isnan(z) & column.notna().to_numpy()
    z[is_item] = choice_numbers(column[is_item].to_numpy(dtype=object))
    label = column.to_numpy(dtype=object)
    for side, value in ((data.left, 1.0), (data.right, -1.0)):
        z[(label == data.items[side]) & column.notna().to_numpy()] = value
    bad = np.flatnonzero((np.isnan(z) & column.notna().to_numpy()) | (np.abs(z) > 1))
    if len(bad):
        raise InputError(
            f"row {bad[0] + 1} has gold {label[bad[0]]!r}; expected left, right or tie, a number from -1 to 1, or one "
            f"of the two items; correct it or leave it empty ({len(bad):,} in all)"
        )
    return z, words


def refuse_fixed(gold: Gold, x: Floats, features: Sequence[Feature]) -> None:
    """Refuse gold that always stands on one side, and features that gold or other features decide."""
    z = gold.z[gold.is_judged]
    if not len(z) or not np.any(z):
        raise InputError("no judged answer has a better item by gold; give gold for pairs that are judged")
    if abs(z.sum()) > _FIXED * np.abs(z).sum():
        side = "left" if z.sum() > 0 else "right"
        raise InputError(
            f"the better item stands {side} in all but {np.mean(np.sign(z) != np.sign(z.sum())):.1%} of {len(z):,} "
            "answers, so quality cannot be told from the side; flip a coin per pair (fdr_core.record does), or give "
            "gold for pairs in both orders"
        )
    x = x[gold.is_judged]
    for k, feature in enumerate(features):
        one = np.sign(x[:, k] * z)
        if np.abs(one).any() and abs(one.sum()) > _FIXED * np.abs(one).sum():
            raise InputError(
                f"{feature.name} is fixed by gold: its item is the {'better' if one.sum() > 0 else 'worse'} one in all "
                f"but {np.mean(one[one != 0] != np.sign(one.sum())):.1%} of pairs; add pairs in which it is not"
            )
        others = np.column_stack([z, np.delete(x, k, axis=1)])
        rest = x[:, k] - others @ np.linalg.lstsq(others, x[:, k], rcond=None)[0]
        if rest @ rest < (1 - _FIXED) * (x[:, k] @ x[:, k]):
            raise InputError(
                f"{feature.name} is fixed by gold and the other features (they explain "
                f"{1 - rest @ rest / (x[:, k] @ x[:, k]):.1%} of it); leave one of them out"
            )
