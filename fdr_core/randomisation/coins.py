"""Sides that coins decided: an honest annotator would have chosen the same items, had the coins fallen otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fdr_core.answers import Answers
from fdr_core.consensus import Consensus, Grades
from fdr_core.knockoffs.signs import mix
from fdr_core.randomisation.alternatives import AnswerKinds, click_strengths, lean_table
from fdr_core.randomisation.choices import ChoiceEvidence, ChoiceTable, weigh_choices
from fdr_core.randomisation.convolution import SignSums
from fdr_core.randomisation.plan import leaning_shares, planned_thresholds, weights_at
from fdr_core.randomisation.results import Tested, sign_tests
from fdr_core.randomisation.units import UnitRows
from fdr_core.types import Floats, Ints

#: With shared coins, utilities for the answers under a coin are fitted without this part of the coins.
FOLDS = 5
#: Share of leaning annotators that weights are planned for where sides must not be looked at.
SUPPOSED_LEANING = 0.15


@dataclass(frozen=True)
class Crowd:
    """All answers with who is to be judged; ``ridge`` of the least-squares fit."""

    answers: Answers
    n_items: int
    n_annotators: int
    judged: Ints
    ridge: float

    def consensus(self, answers: Answers | None = None) -> Consensus:
        """Fit the consensus to all answers, or to others of the same crowd."""
        return Consensus(
            self.answers if answers is None else answers,
            n_items=self.n_items,
            n_annotators=self.n_annotators,
            ridge=self.ridge,
        )


def own_coins(crowd: Crowd) -> Tested:
    """Test annotators who share no coin: every answer is weighed by what all others say about its items."""
    consensus = crowd.consensus()
    units = UnitRows.of(crowd.answers, crowd.judged, crowd.n_annotators)
    return test_units(crowd, units, consensus, consensus.support[units.rows], consensus.uncertainty[units.rows])


def test_units(crowd: Crowd, units: UnitRows, consensus: Consensus, support: Floats, uncertainty: Floats) -> Tested:
    """Weigh the answers, test every annotator, and weigh the tests by what choices and the others' p-values say."""
    evidence = weigh_units(crowd, units, consensus, support, uncertainty)
    tests = sign_tests(unit_sums(crowd, units, evidence.pull))
    planned = planned_thresholds(tests.null, tests.found, evidence.log_ratio)
    weight = weights_at(planned, leaning_shares(tests.p_value, tests.above_half))
    return Tested(
        tests.p_value, tests.above_half, weight, tests.side, converged=consensus.converged and evidence.converged
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


def unit_sums(crowd: Crowd, units: UnitRows, pull: Floats) -> SignSums:
    """``s_u g_u`` of every unit, on the annotators' grids."""
    side = np.sign(crowd.answers.outcome[units.rows])
    return SignSums.of(units.position[units.starts], units.sums(units.share * side * pull), len(crowd.judged))


def shared_coins(crowd: Crowd) -> Tested:
    """Test annotators who met the same coins: an answer is weighed by answers under other coins only.

    Where others lean, what they chose tells how the coin fell. So utilities for the answers under a coin come from the
    other parts of the coins (items of their own leave every answer weighing the same), and weights of annotators know
    no p-values.
    """
    units = UnitRows.of(crowd.answers, crowd.judged, crowd.n_annotators)
    consensus, support, uncertainty = _cross_fitted(crowd, units)
    evidence = weigh_units(crowd, units, consensus, support, uncertainty)
    tests = sign_tests(unit_sums(crowd, units, evidence.pull))
    planned = planned_thresholds(tests.null, tests.found, evidence.log_ratio)
    weight = weights_at(planned, SUPPOSED_LEANING)
    return Tested(
        tests.p_value, tests.above_half, weight, tests.side, converged=consensus.converged and evidence.converged
    )


def _cross_fitted(crowd: Crowd, units: UnitRows) -> tuple[Consensus, Floats, Floats]:
    """Support of the chosen items, and its variance, from the folds of coins that an answer is not in."""
    answers = crowd.answers
    fold = (mix(answers.coin.astype(np.uint64)) % np.uint64(FOLDS)).astype(np.int64)
    rows_fold = fold[units.rows]
    support, uncertainty = np.zeros(len(units.rows)), np.ones(len(units.rows))
    for k in np.unique(fold):
        consensus = crowd.consensus(replace(answers, weight=answers.weight * (fold != k)))
        mine = np.flatnonzero(rows_fold == k)
        left, right = answers.left[units.rows[mine]], answers.right[units.rows[mine]]
        sign = np.where(answers.outcome[units.rows[mine]] < 0, -1.0, 1.0)
        support[mine] = sign * consensus.gap(left, right)
        uncertainty[mine] = consensus.gap_variance(left, right)
    return consensus, support, uncertainty
