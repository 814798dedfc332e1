"""What the choices alone say: which leans an annotator's answers are weighed for."""

import numpy as np

from fdr_core.randomisation.choices import N_LEANS, ChoiceTable, LeanTable, weigh_choices

#: One kind of answer, one slope; pulls from hardly anything to plain.
PULL = np.linspace(0.02, 0.8, N_LEANS)


def weighed(n_answers: int) -> tuple[float, np.ndarray]:
    """Pull of an answer, and the mixture of leans, of one annotator whose choices say nothing about leaning."""
    nothing = np.full((N_LEANS, 1, 1), -0.7)
    table = LeanTable(honest=np.full((1, 1), -0.7), choice=nothing, pull=PULL.reshape(-1, 1, 1))
    zeros = np.zeros(n_answers, dtype=np.int64)
    found = weigh_choices(ChoiceTable(zeros, zeros, np.ones(n_answers), 1), table, np.ones(1))
    return float(found.pull[0]), found.mixture[:, 0]


def test_leans_that_few_answers_cannot_show_count_less() -> None:
    few, mixture = weighed(6)
    assert few > PULL.mean()
    assert np.all(np.diff(mixture) > 0)
    assert np.isclose(mixture.sum(), 1.0)


def test_with_very_many_answers_every_lean_counts_as_it_is_common() -> None:
    many, mixture = weighed(60_000)
    assert np.allclose(mixture, 1 / N_LEANS, atol=1e-3)
    assert np.isclose(many, PULL.mean(), atol=1e-3)


def test_leans_count_by_how_common_they_are_even_where_many_answers_rule_most_of_them_out() -> None:
    """Beside one lean, five thousand answers leave every other without a probability that a number can hold."""
    n, slopes = 5000, 2
    choice = np.linspace(-5.0, -0.7, N_LEANS)[:, None, None] - np.array([0.0, 0.5])[None, :, None]
    table = LeanTable(np.full((slopes, 1), -0.7), choice, np.tile(PULL[:, None, None], (1, slopes, 1)))
    zeros = np.zeros(n, dtype=np.int64)
    found = weigh_choices(ChoiceTable(zeros, zeros, np.ones(n), 1), table, np.full(slopes, 0.5))
    assert np.isclose(found.mixture.sum(), 1.0)
    assert found.mixture.sum(axis=1).argmax() == N_LEANS - 1
