"""The paper's construction from statistics equals the one that builds A_tilde and Q."""

import numpy as np
import pytest

from fdr_core.errors import ConfigurationError, DesignError
from fdr_core.knockoffs.paper import FixedKnockoffs, fixed_design, require_rows
from fdr_core.knockoffs.slack import slack, smallest_eigenvalue
from tests.core.cases import crowd, sums_of
from tests.core.dense import complement, dense_design, dense_knockoffs, project_out, svd_route

ALL = np.arange(20)


def random_rotation(rng, D, A):
    """A uniformly random Q: m orthonormal columns orthogonal to D and A."""
    basis = complement(D, A)
    rotation, _ = np.linalg.qr(rng.normal(size=(basis.shape[1], A.shape[1])))
    return basis @ rotation


def symmetric_root(knockoffs):
    """C as the fast construction applies it."""
    return knockoffs.root()


def skewed_crowd(rng):
    """A design in which s = 1 is not feasible: few items, most annotators see one pair in one orientation."""
    answers = crowd(rng, n_answers=400)
    fixed = rng.random(len(answers)) < 0.9
    left = np.where(fixed, answers.annotator % 4, answers.left)
    right = np.where(fixed, (answers.annotator + 3) % 4 + 4, answers.right)
    keep = left != right
    return type(answers)(answers.annotator, left, right, answers.outcome, answers.coin, answers.weight).take(keep)


@pytest.mark.parametrize("make", [crowd, skewed_crowd], ids=["s is one", "s by coordinate ascent"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fixed_knockoffs_given_q_equal_the_dense_and_the_svd_construction(make, seed):
    rng = np.random.default_rng(seed)
    answers = make(rng)
    design = fixed_design(sums_of(answers), ALL)
    knockoffs = FixedKnockoffs(design)
    D, A = dense_design(answers, 8, 20)
    Q = random_rotation(rng, D, A)
    y = answers.outcome
    Ap, A_tilde = dense_knockoffs(D, A, knockoffs.s, Q)
    fast = knockoffs.problem(Q.T @ y).c
    assert np.allclose(fast[:20], Ap.T @ y, atol=1e-9)
    assert np.allclose(fast[20:], A_tilde.T @ y, atol=1e-9)
    c, c_tilde = svd_route(D, A, y, knockoffs.s, Q)
    assert np.allclose(fast, np.concatenate([c, c_tilde]), atol=1e-9)


@pytest.mark.parametrize("make", [crowd, skewed_crowd])
def test_dense_knockoffs_satisfy_the_knockoff_identities(make):
    rng = np.random.default_rng(5)
    answers = make(rng)
    s = FixedKnockoffs(fixed_design(sums_of(answers), ALL)).s
    D, A = dense_design(answers, 8, 20)
    Ap, A_tilde = dense_knockoffs(D, A, s, random_rotation(rng, D, A))
    assert np.allclose(A_tilde.T @ A_tilde, Ap.T @ Ap, atol=1e-8)
    assert np.allclose(Ap.T @ A_tilde, Ap.T @ Ap - np.diag(s), atol=1e-8)
    assert np.allclose(D.T @ A_tilde, 0.0, atol=1e-8)


@pytest.mark.parametrize("make", [crowd, skewed_crowd])
def test_fixed_problem_gram_matrix_equals_that_of_the_dense_columns(make):
    rng = np.random.default_rng(3)
    answers = make(rng)
    knockoffs = FixedKnockoffs(fixed_design(sums_of(answers), ALL))
    D, A = dense_design(answers, 8, 20)
    Ap, A_tilde = dense_knockoffs(D, A, knockoffs.s, random_rotation(rng, D, A))
    X = np.concatenate([Ap, A_tilde], axis=1)
    problem = knockoffs.draw(rng)
    G = np.stack([problem.c - problem.velocity(e) for e in np.eye(40)], axis=1)
    assert np.allclose(G, X.T @ X, atol=1e-8)
    columns = np.stack([problem.gram(np.arange(40), i) for i in range(40)], axis=1)
    assert np.allclose(columns, X.T @ X, atol=1e-8)


def test_fixed_design_residual_sum_of_squares_equals_dense_least_squares():
    answers = crowd(np.random.default_rng(4), graded=True)
    design = fixed_design(sums_of(answers), ALL)
    D, A = dense_design(answers, 8, 20)
    X = np.concatenate([D, A], axis=1)
    residual = answers.outcome - X @ np.linalg.lstsq(X, answers.outcome, rcond=None)[0]
    assert design.rss == pytest.approx(residual @ residual, abs=1e-9)
    assert design.df == len(answers) - np.linalg.matrix_rank(X)
    assert np.allclose(np.eye(20) - design.F.T @ design.F, project_out(D, A).T @ A, atol=1e-10)


def test_drawn_q_has_the_distribution_of_a_random_rotation_of_y():
    rng = np.random.default_rng(6)
    answers = crowd(rng, n_annotators=5, n_answers=60, n_biased=1)
    design = fixed_design(sums_of(answers, n_annotators=5), np.arange(5))
    knockoffs = FixedKnockoffs(design)
    D, A = dense_design(answers, 8, 5)
    rotated = np.array([random_rotation(rng, D, A).T @ answers.outcome for _ in range(1500)])
    drawn = np.array([knockoffs.draw_q(rng) for _ in range(1500)])
    assert np.allclose(drawn.mean(axis=0), 0.0, atol=0.12)
    assert np.allclose(np.cov(drawn.T), np.cov(rotated.T), atol=0.12)
    lengths = [(drawn**2).sum(axis=1), (rotated**2).sum(axis=1)]
    assert np.allclose(np.quantile(lengths[0], [0.1, 0.5, 0.9]), np.quantile(lengths[1], [0.1, 0.5, 0.9]), rtol=0.12)


def test_slack_where_one_is_feasible_is_one_without_a_solver():
    design = fixed_design(sums_of(crowd(np.random.default_rng(0))), ALL)
    assert smallest_eigenvalue(design.F) >= 0.5
    assert (slack(design.F) == 1.0).all()


@pytest.mark.parametrize("seed", range(4))
def test_slack_by_coordinate_ascent_reaches_the_semidefinite_program(seed):
    rng = np.random.default_rng(seed)
    n, m = 6, 25
    F = rng.normal(size=(n, m))
    F *= np.sqrt(0.9) / np.linalg.norm(F, 2)
    exact, fast = slack(F, solver="cvxpy"), slack(F)
    assert fast.sum() >= exact.sum() - 1e-3 * m
    assert fast.sum() >= m * min(1.0, 2 * smallest_eigenvalue(F)) - 1e-6
    lowest = np.linalg.eigvalsh(2 * (np.eye(m) - F.T @ F) - np.diag(fast))[0]
    assert lowest >= -1e-9
    assert ((fast >= 0) & (fast <= 1)).all()


def test_slack_of_a_singular_design_is_refused():
    with pytest.raises(DesignError, match="both orders"):
        slack(np.array([[1.0, 0.0], [0.0, 0.3]]))
    with pytest.raises(ConfigurationError, match="coordinate"):
        slack(np.zeros((1, 1)), solver="simplex")


def test_require_rows_with_too_few_answers_names_the_number_missing():
    with pytest.raises(DesignError, match="Collect 11 more answers"):
        require_rows(99, 50, 10)
    require_rows(110, 50, 10)
