"""Leans relative to the crowd, where no coin decided: against a likelihood ratio, and their rate and power."""

import numpy as np
import pytest
from scipy.stats import norm

from fdr_core import Comparisons, detect
from fdr_core.answer_table import AnswerTable
from fdr_core.baselines import fit_logistic
from fdr_core.leans import RELATIVE
from fdr_core.randomisation.placed import RelativeLeans, relative_leans
from fdr_core.simulate import Simulated
from harness.breakers import CROWDS
from harness.scenarios import SCENARIOS

TEAM = SCENARIOS["team-better-left"]


def measured(comparisons: Comparisons) -> RelativeLeans:
    table = AnswerTable.of(comparisons)
    return relative_leans(table.answers, len(table.items), len(table.annotators))


def seen(truth: Simulated) -> tuple[float, float]:
    """False discovery proportion and power of the list."""
    flagged = detect(truth.comparisons, lbi=None).flagged
    return truth.false_discovery_proportion(flagged), truth.power(flagged)


def test_tests_agree_with_likelihood_ratios_of_an_independent_fit() -> None:
    """Refit without one annotator's lean, held at the others' median: twice the log-likelihood lost is z squared."""
    c = TEAM.simulate(1).comparisons
    found, fit = measured(c), fit_logistic(c, ridge=0.5)
    y, gap = (c.outcome + 1) / 2, fit.theta[c.left] - fit.theta[c.right]
    median = np.median(fit.gamma)
    ratio = np.zeros(c.n_annotators)
    for j in range(c.n_annotators):
        own = c.annotator == j
        free, held = (gap[own] + lean for lean in (fit.gamma[j], median))
        gain = (y[own] * free - np.logaddexp(0, free)) - (y[own] * held - np.logaddexp(0, held))
        ratio[j] = np.sign(fit.gamma[j] - median) * np.sqrt(max(2 * gain.sum(), 0.0))
    assert np.corrcoef(found.z, ratio)[0, 1] > 0.98
    assert found.p_value == pytest.approx(2 * norm.sf(np.abs(found.z)))
    assert found.converged


def test_everybody_leaning_alike_leaves_relative_leans_as_they_are() -> None:
    """What is told is who leans more than the others: a crowd that leans as one is not held against anybody."""
    rng = np.random.default_rng(3)
    n, people = 60, 30
    who = np.repeat(np.arange(people), n)
    left, right = rng.integers(10, size=who.size), 10 + rng.integers(10, size=who.size)
    theta = rng.normal(size=20)
    gap = theta[left] - theta[right] + np.where(who < 3, 2.5, 0.0) + 1.0
    outcome = np.where(gap + rng.logistic(size=gap.size) > 0, 1.0, -1.0)
    found = measured(Comparisons.from_arrays(who, left, right, outcome))
    assert (found.p_value[:3] < 1e-3).all()
    assert (found.leans.low[:3] > 0).all()
    assert np.abs(found.leans.estimate[3:]).mean() < 0.15
    assert found.leans.basis == RELATIVE


def test_steep_and_flat_judges_of_items_placed_by_their_worth_do_not_lean() -> None:
    """A slope of one's own, among better items on the left, is an excess that looks like a lean."""
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(100), 30)
    theta, slope = rng.normal(size=60), np.exp(rng.normal(size=100))
    one = rng.integers(60, size=who.size)
    two = (one + rng.integers(1, 60, size=who.size)) % 60
    turn = (theta[one] > theta[two]) != (rng.random(who.size) < 0.9)
    left, right = np.where(turn, two, one), np.where(turn, one, two)
    gap = 1.5 * slope[who] * (theta[left] - theta[right])
    outcome = np.where(gap + rng.logistic(size=gap.size) > 0, 1.0, -1.0)
    found = measured(Comparisons.from_arrays(who, left, right, outcome))
    assert np.std(found.z) < 1.15
    assert np.mean(found.p_value < 0.05) < 0.1


def test_items_that_never_change_sides_are_judged_beside_the_crowd_and_told_so() -> None:
    result = detect(SCENARIOS["never-swapped"].simulate(2).comparisons, lbi=None)
    assert result.audit.how == "sides fixed"
    assert result.lean_basis == RELATIVE
    assert any("relative to the crowd" in reason for reason in result.audit.reasons)
    assert result.guarantee.kind == "FDR, measured"
    assert "leans more than the others" in result.guarantee.sentence


def test_people_with_few_coins_are_judged_by_the_model_beside_a_list_that_keeps_its_proof() -> None:
    """Every third person has one coin for thirty answers: two in all, which no exact test could rest on."""
    truth = CROWDS["few-coins-some"].simulate(3)
    c = truth.comparisons
    result = detect(c, lbi=None)
    few = np.arange(60) % 3 == 0
    assert result.audit.how == "own coins"
    assert result.audit.few_coins.tolist() == few.tolist()
    assert result.guarantee.kind.startswith("FDR, proven")
    assert "with few coins: measured" in result.guarantee.sentence
    rows = result.annotators.set_index("annotator").loc[list(c.annotators)]
    assert rows["p_value"].notna().all()
    assert (rows["more_needed"] == 0).all()
    assert rows.loc[few & truth.is_biased, "flagged"].any()
    assert not rows.loc[few, "proven"].any()
    assert rows.loc[~few, "proven"].tolist() == rows.loc[~few, "flagged"].tolist()
    assert set(result.exact.annotators["annotator"]) == set(c.annotators[~few])


def test_a_crowd_with_few_coins_each_is_told_who_leans_more_than_the_others() -> None:
    truth = CROWDS["few-coins"].simulate(4)
    result = detect(truth.comparisons, lbi=None)
    assert (result.audit.how, result.lean_basis) == ("sides fixed", RELATIVE)
    assert truth.power(result.flagged) > 0.5
    c = truth.comparisons
    five = c.take(np.flatnonzero(c.annotator < 5))
    assert detect(five, lbi=None).audit.how == "none"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["team-better-left", "never-swapped"])
def test_list_where_no_coin_decided_holds_its_rate_and_finds_the_leaners(name: str) -> None:
    fdp, power = np.array([seen(SCENARIOS[name].simulate(run)) for run in range(100, 130)]).T
    assert fdp.mean() <= 0.1 + 3 * fdp.std(ddof=1) / np.sqrt(30)
    assert power.mean() >= 0.7
