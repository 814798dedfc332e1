"""How one annotator is tested: one way per kind of design, all called alike.

Given who chose which item in which pair, the sides of an honest annotator's choices are fair signs, one per coin. The
statistic ``T_j = sum_u s_u g_u`` has weights g that do not depend on them, so its two-sided p-value is exact whatever
decides the choices. What the tests weigh in the list (`fdr_core.selection.weighted_list`) is planned on the choices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from fdr_core.answers import Answers
from fdr_core.errors import ConfigurationError
from fdr_core.randomisation.both_orders import both_orders
from fdr_core.randomisation.coins import Crowd, own_coins, sides_fixed
from fdr_core.randomisation.parts import Spoken, Told
from fdr_core.randomisation.placed import RelativeLeans
from fdr_core.randomisation.results import Tests
from fdr_core.randomisation.shared import shared_coins
from fdr_core.types import Ints, Words

__all__ = ["WAYS", "Tests", "test_annotators"]

#: Ways to test, by the design that they are for.
WAYS: Mapping[str, Callable[[Crowd], Tests]] = MappingProxyType(
    {
        "own coins": own_coins,
        "shared coins": shared_coins,
        "both orders": both_orders,
        "sides fixed": sides_fixed,
    }
)


def test_annotators(
    answers: Answers,
    *,
    how: str,
    n_items: int,
    n_annotators: int,
    judged: Ints,
    leans: Ints,
    ridge: float,
    part_key: Words | None,
    placed: RelativeLeans | None,
    told: Told | None,
    leans_of: Callable[[Spoken], Ints] | None,
) -> Tests:
    """Test every judged annotator for a lean; the same answers give the same tests.

    Parameters
    ----------
    answers : all answers, under the coins that decided their sides.
    how : a key of `WAYS`.
    n_items, n_annotators : number of codes.
    judged : codes of the annotators to be tested; the answers of the others inform the consensus.
    leans : (n_annotators,) side that the annotator's lean is of interest for (`Leans.side_of_interest`), from its own
        sides and everybody's choices. A p-value becomes 1 where the test speaks for another side, and where it rests on
        less than the least evidence (`fdr_core.least_evidence`). It can only grow by that, so it stays valid.
    ridge : of the least-squares fit.
    part_key : (rows,) where coins are shared, the coins are divided into parts by the smallest key of their answers;
        by their codes if there is none.
    placed : leans relative to the crowd where they are known already, for "sides fixed".
    told : what parts of the answers follow; None tests answers whole.
    leans_of : gives the same as ``leans`` of the parts that speak.

    Returns
    -------
    Tests, in the order of ``judged``.

    Raises
    ------
    ConfigurationError
        For an unknown ``how``.
    """
    if how not in WAYS:
        raise ConfigurationError(f"how was {how!r}; expected one of {', '.join(WAYS)}")
    if not len(judged):
        none, nobody = np.zeros(0), np.zeros(0, dtype=np.int64)
        return Tests(none, none, none, nobody, nobody, converged=True, uses_storey=False, kind=how)
    tests = WAYS[how](Crowd(answers, n_items, n_annotators, judged, ridge, part_key, placed, told))
    if tests.spoken is not None and leans_of is not None:
        leans = leans_of(tests.spoken)
    return tests.limited(how, leans[judged])
