"""Sides that coins decided: an honest annotator would have chosen the same items, had the coins fallen otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from fdr_core.answers import Answers
from fdr_core.codes import compact_codes, distinct_partners
from fdr_core.consensus.honest import Consensus, Grades
from fdr_core.randomisation.choices import (
    AnswerKinds,
    ChoiceEvidence,
    ChoiceTable,
    click_strengths,
    lean_table,
    weigh_choices,
)
from fdr_core.randomisation.convolution import SignSums
from fdr_core.randomisation.parts import Told, smallest_of
from fdr_core.randomisation.placed import RelativeLeans, relative_leans
from fdr_core.randomisation.plan import ROOM, leaning_shares, planned_thresholds, weights_at
from fdr_core.randomisation.results import Tests, sign_tests
from fdr_core.randomisation.units import UnitRows
from fdr_core.types import Floats, Ints, Words

#: Tests with less than this in common (`common_coins`) are as good as independent for the list: the variance of how
#: many p-values lie above one half then grows by less than 4 %.
LITTLE_IN_COMMON = 0.1
#: Sum of (people per coin)^2 beyond which overlaps are not computed; tests are then taken to have much in common.
MOST_PAIRS = 4e6
#: Share of leaning annotators that weights are planned for where sides must not be looked at.
SUPPOSED_LEANING = 0.15
#: Values of units up to this are rounding errors.
_NOTHING = 1e-9
#: Where the model of judging is in the p-values already, what it says of the choices counts less in the weights.
TRUST_IF_PLACED = 0.6


@dataclass(frozen=True)
class Crowd:
    """All answers with who is to be judged; ``ridge`` of the least-squares fit, ``part_key`` by row.

    ``placed`` : leans relative to the crowd, where no coin decided the sides; ``told`` : what parts of the answers
    follow, None where answers are tested whole.
    """

    answers: Answers
    n_items: int
    n_annotators: int
    judged: Ints
    ridge: float
    part_key: Words | None = None
    placed: RelativeLeans | None = None
    told: Told | None = None

    def consensus(self, answers: Answers | None = None, *, near: Consensus | None = None) -> Consensus:
        """Fit the consensus to all answers, or to others of the same crowd, beginning near another one."""
        return Consensus(
            self.answers if answers is None else answers,
            n_items=self.n_items,
            n_annotators=self.n_annotators,
            ridge=self.ridge,
            near=near,
        )


def own_coins(crowd: Crowd) -> Tests:
    """Test annotators who share no coin: every answer is weighed by what all others say about its items."""
    consensus = crowd.consensus()
    units = UnitRows.of(crowd.answers, crowd.judged, crowd.n_annotators)
    support, uncertainty = consensus.support[units.rows], consensus.uncertainty[units.rows]
    return examine_units(crowd, units, consensus, support, uncertainty)


def examine_units(
    crowd: Crowd,
    units: UnitRows,
    consensus: Consensus,
    support: Floats,
    uncertainty: Floats,
    *,
    room: float = ROOM,
    may_share: bool = True,
) -> Tests:
    """Weigh the answers, test every annotator, and weigh the tests by what the choices say.

    Where tests are independent of each other, or nearly so although annotators share coins, weights also know from the
    others' p-values how many lean. ``may_share``: whether tests of annotators who met one coin depend on each other.
    """
    evidence = weigh_units(crowd, units, consensus, support, uncertainty)
    value = unit_values(crowd, units, evidence.pull)
    tests = sign_tests(unit_sums(crowd, units, value))
    planned = planned_thresholds(tests.null, tests.found, tests.smallest, evidence.log_ratio, room=room)
    are_independent = not may_share or common_coins(crowd, units, value) <= LITTLE_IN_COMMON
    leaning = leaning_shares(tests.p_value, tests.above_half) if are_independent else SUPPOSED_LEANING
    n_telling, spoken = _n_telling(units, value, len(crowd.judged)), None
    if crowd.told is not None:
        whole = tests.p_value, tests.side, n_telling
        spoken = smallest_of(whole, units, value, support, crowd.told, len(crowd.answers))
    return Tests(
        tests.p_value,
        tests.above_half,
        weights_at(planned, leaning),
        tests.side,
        n_telling,
        converged=consensus.converged and evidence.converged,
        uses_storey=are_independent,
        spoken=spoken,
    )


def weigh_units(
    crowd: Crowd, units: UnitRows, consensus: Consensus, support: Floats, uncertainty: Floats
) -> ChoiceEvidence:
    """What the choices of the judged say; ``support`` and ``uncertainty`` per row of ``units``."""
    grades = Grades(consensus.grades.values, consensus.grades.strength[units.rows])
    side_free = np.where(grades.strength < 0, np.abs(support), support)
    kinds = AnswerKinds.of(grades, side_free, uncertainty)
    slopes, shares = consensus.slopes
    table = lean_table(consensus.honest, kinds, slopes, click_strengths(consensus.grades))
    return weigh_choices(ChoiceTable(units.position, kinds.kind, units.share, len(crowd.judged)), table, shares)


def unit_values(crowd: Crowd, units: UnitRows, pull: Floats) -> Floats:
    """``s_u g_u`` of every unit: log odds of a lean, summed over the answers under its coin."""
    weight, side = crowd.answers.weight[units.rows], np.sign(crowd.answers.outcome[units.rows])
    return units.sums(weight * side * pull)


def _n_telling(units: UnitRows, value: Floats, m: int) -> Ints:
    """How many units of each of the judged tell a side: ties, and two orders answered alike, tell none."""
    return np.bincount(units.position[units.starts], np.abs(value) > _NOTHING, m).astype(np.int64)


def unit_sums(crowd: Crowd, units: UnitRows, value: Floats) -> SignSums:
    """The values of all units, on the annotators' grids."""
    return SignSums.of(units.position[units.starts], value, len(crowd.judged))


def common_coins(crowd: Crowd, units: UnitRows, value: Floats) -> float:
    """Sum over the others of the squared correlation of two annotators' statistics, on average, at its most.

    ``|corr(T_j, T_k)| <= sum over common coins of g_j g_k / sqrt(sum g_j^2 sum g_k^2)``, with equality where the same
    side was chosen under all of them.
    """
    position, m = units.position[units.starts], len(crowd.judged)
    coin = compact_codes(crowd.answers.coin[units.rows[units.starts]])
    people = np.bincount(coin)
    is_shared = people > 1
    if not is_shared.any():
        return 0.0
    if float((people[is_shared].astype(np.float64) ** 2).sum()) > MOST_PAIRS:
        return np.inf
    size = np.sqrt(np.maximum(np.bincount(position, value**2, m), 1e-300))
    met = sp.coo_array((np.abs(value) / size[position], (position, coin)), shape=(m, len(people))).tocsr()
    together = (met[:, is_shared] @ met[:, is_shared].T).tocoo()
    others = together.row != together.col
    return float((together.data[others] ** 2).sum() / m)


def sides_fixed(crowd: Crowd) -> Tests:
    """Test annotators against the crowd's median with the sides as they stood; weights as where coins decided."""
    placed = crowd.placed or relative_leans(crowd.answers, crowd.n_items, crowd.n_annotators)
    consensus = crowd.consensus()
    units = UnitRows.of(crowd.answers, crowd.judged, crowd.n_annotators)
    evidence = weigh_units(crowd, units, consensus, consensus.support[units.rows], consensus.uncertainty[units.rows])
    as_if = sign_tests(unit_sums(crowd, units, unit_values(crowd, units, evidence.pull)))
    planned = planned_thresholds(as_if.null, as_if.found, as_if.smallest, evidence.log_ratio, trust=TRUST_IF_PLACED)
    weight = weights_at(planned, leaning_shares(placed.p_value[crowd.judged], np.full(len(crowd.judged), 0.5)))
    tested = placed.tested(crowd.judged, weight, _pairs_met(crowd, units))
    return replace(tested, converged=tested.converged and consensus.converged and evidence.converged)


def _pairs_met(crowd: Crowd, units: UnitRows) -> Ints:
    """How many different pairs each of the judged compared."""
    answers = crowd.answers.take(units.rows)
    low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    return distinct_partners(units.position, low * crowd.n_items + high, len(crowd.judged))
