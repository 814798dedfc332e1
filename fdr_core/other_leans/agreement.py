"""Who follows nothing: agreement with the others beyond chance, and whoever has none of it.

Somebody who clicks at random, or left and right in turn, leans towards nothing and is on no list of leans. What tells
them is that their answers have nothing to do with anybody else's.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import stdtr, stdtrit

from fdr_core.comparisons import Comparisons
from fdr_core.errors import ConfigurationError
from fdr_core.judges.both_orders import adjusted
from fdr_core.other_leans.features import pair_codes
from fdr_core.other_leans.lists import Effects, LeanList, as_table
from fdr_core.types import Floats, Ints

#: Fewer pairs that somebody else answered too are not judged.
FEWEST_PAIRS = 20


def agreement(data: Comparisons, *, q: float = 0.1, least: float = 0.2) -> LeanList:
    """
    Find the annotators who agree with the others no better than chance.

    The effects of its table are agreements: 0 chance, 1 always as the others; answers are pairs that others answered.

    Parameters
    ----------
    q : target false discovery rate, in (0, 1).
    least : agreement beyond chance, in (0, 1), that everybody is expected to have at least.
    """
    if not 0 < q < 1 or not 0 < least < 1:
        raise ConfigurationError(f"q was {q:g} and least {least:g}; expected numbers between 0 and 1")
    pair, forward = pair_codes(data)
    mean, error, n = with_the_others(data.outcome * forward, pair, data.annotator.astype(np.int64), data.n_annotators)
    judged = n >= FEWEST_PAIRS
    mean, error = np.where(judged, mean, np.nan), np.where(judged, error, np.nan)
    p_value, reach = stdtr(n - 1.0, (mean - least) / error), stdtrit(np.maximum(n - 1, 1), 0.975) * error
    q_value = np.full(len(n), np.nan)
    q_value[judged] = adjusted(p_value[judged])
    reasons = _reasons(mean[judged], len(n), least)
    on_list = (np.nan_to_num(q_value, nan=1.0) <= q) & (not reasons)
    found = Effects(mean, error, p_value, mean, np.maximum(mean - reach, -1.0), np.minimum(mean + reach, 1.0), n)
    table = as_table(data.annotators, found, q_value, on_list, partial(_sentence, least=least))
    promise = f"At most {q:.0%} of this list agree with the others by {least:g} or more on average, measured"
    promise = "Nothing is promised: nobody was judged" if reasons else promise
    flagged = table.loc[table["flagged"], "annotator"].tolist()
    return LeanList("agreement", "what the others choose", "others", flagged, table, promise, reasons)


def with_the_others(choice: Floats, pair: Ints, who: Ints, m: int) -> tuple[Floats, Floats, Ints]:
    """
    Measure everybody's agreement: the mean, over pairs, of the own answer times the mean answer of the others.

    With two who never tie it is Krippendorff's alpha with both items of a pair equally common, ``1 - 2 disagreements``:
    for a random clicker 0 on average, whatever the others do.

    Parameters
    ----------
    choice : (N,) in [-1, 1] towards the pair's first item; pair : (N,) codes; who : (N,) in [0, m).

    Returns
    -------
    mean, standard error, and number of pairs that somebody else answered too; (m,) each.
    """
    own, code = np.unique(who * (int(pair.max(initial=0)) + 1) + pair, return_inverse=True)
    mine = np.bincount(code.ravel(), choice) / np.bincount(code.ravel())
    who, pair = own // (int(pair.max(initial=0)) + 1), own % (int(pair.max(initial=0)) + 1)
    others = np.bincount(pair)[pair] - 1
    shared = others > 0
    rest = (np.bincount(pair, mine)[pair] - mine)[shared] / others[shared]
    product, who = mine[shared] * rest, who[shared]
    n = np.bincount(who, minlength=m)
    mean = np.bincount(who, product, m) / np.maximum(n, 1)
    # One more observation of size 1 in the squares: whoever never varied does not get an error of 0.
    squares = np.bincount(who, (product - mean[who]) ** 2, m) + 1.0
    return mean, np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1)), n


def _reasons(mean: Floats, m: int, least: float) -> list[str]:
    if not len(mean):
        return [
            f"Nobody of {m:,} has {FEWEST_PAIRS} pairs that somebody else answered too, so nothing can be said about "
            "agreement; have some pairs answered by several people."
        ]
    if np.median(mean) < least:
        return [
            f"Half of the annotators agree with the others by less than {least:g}: where the others do not agree among "
            "themselves, nothing can be said about one who does not agree with them."
        ]
    return []


def _sentence(mean: float, low: float, high: float, flagged: bool, *, least: float) -> str:
    if np.isnan(mean):
        return "not judged: too few pairs that others answered too"
    measured = f"{mean:.2f} above chance ({low:.2f} to {high:.2f})"
    if flagged:
        return f"answers agree with the others no better than chance: {measured}, less than {least:g}"
    return f"answers agree with the others {measured}"
