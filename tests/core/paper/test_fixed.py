"""The paper's construction from statistics equals the one that builds A_tilde and Q."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from fdr_core.errors import ConfigurationError, DesignError
from fdr_core.paper.copies import FixedKnockoffs, householder_q
from fdr_core.paper.draws import race_results
from fdr_core.paper.knockoff_lbi import KnockoffLBI
from fdr_core.paper.paths import follow
from fdr_core.paper.slack import SOLVERS, slack
from fdr_core.projection import fixed_design, require_rows, smallest_eigenvalue
from fdr_core.simulate import paper_study
from tests.core.cases import crowd, sums_of
from tests.core.dense import complement, dense_design, dense_knockoffs, project_out, svd_route, symmetric_root

ALL = np.arange(20)
OPTIMISER = {"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-7, "fatol": 1e-10, "adaptive": True}


def random_rotation(rng: np.random.Generator, D: Any, A: Any) -> Any:
    """A uniformly random Q: m orthonormal columns orthogonal to D and A."""
    basis = complement(D, A)
    rotation, _ = np.linalg.qr(rng.normal(size=(basis.shape[1], A.shape[1])))
    return basis @ rotation


def skewed_crowd(rng: np.random.Generator) -> Any:
    """A design in which s = 1 is not feasible: few items, most annotators see one pair in one orientation."""
    answers = crowd(rng, n_answers=400)
    fixed = rng.random(len(answers)) < 0.9
    left = np.where(fixed, answers.annotator % 4, answers.left)
    right = np.where(fixed, (answers.annotator + 3) % 4 + 4, answers.right)
    keep = left != right
    return type(answers)(answers.annotator, left, right, answers.outcome, answers.coin, answers.weight).take(keep)


@pytest.mark.parametrize("make", [crowd, skewed_crowd], ids=["s is one", "s is interior"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fixed_knockoffs_given_q_equal_the_dense_and_the_svd_construction(make: Callable[..., Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    answers = make(rng)
    design = fixed_design(sums_of(answers), ALL)
    knockoffs = FixedKnockoffs(design)
    D, A = dense_design(answers, 8, 20)
    Q = random_rotation(rng, D, A)
    y = answers.outcome
    s, C = knockoffs.slack.s, knockoffs.root()
    Ap, A_tilde = dense_knockoffs(D, A, s, Q, C)
    fast = knockoffs.problem(Q.T @ y).c
    assert np.allclose(fast[:20], Ap.T @ y, atol=1e-9)
    assert np.allclose(fast[20:], A_tilde.T @ y, atol=1e-9)
    c, c_tilde = svd_route(D, A, y, s, Q, C)
    assert np.allclose(fast, np.concatenate([c, c_tilde]), atol=1e-9)


@pytest.mark.parametrize("make", [crowd, skewed_crowd])
def test_dense_knockoffs_satisfy_the_knockoff_identities(make: Callable[..., Any]) -> None:
    rng = np.random.default_rng(5)
    answers = make(rng)
    s = FixedKnockoffs(fixed_design(sums_of(answers), ALL)).slack.s
    D, A = dense_design(answers, 8, 20)
    Ap, A_tilde = dense_knockoffs(D, A, s, random_rotation(rng, D, A))
    assert np.allclose(A_tilde.T @ A_tilde, Ap.T @ Ap, atol=1e-8)
    assert np.allclose(Ap.T @ A_tilde, Ap.T @ Ap - np.diag(s), atol=1e-8)
    assert np.allclose(D.T @ A_tilde, 0.0, atol=1e-8)


@pytest.mark.parametrize("make", [crowd, skewed_crowd])
def test_fixed_problem_gram_matrix_equals_that_of_the_dense_columns(make: Callable[..., Any]) -> None:
    rng = np.random.default_rng(3)
    answers = make(rng)
    knockoffs = FixedKnockoffs(fixed_design(sums_of(answers), ALL))
    D, A = dense_design(answers, 8, 20)
    Ap, A_tilde = dense_knockoffs(D, A, knockoffs.slack.s, random_rotation(rng, D, A))
    X = np.concatenate([Ap, A_tilde], axis=1)
    problem = knockoffs.draw(rng)
    G = np.stack([problem.c - problem.velocity(e) for e in np.eye(40)], axis=1)
    assert np.allclose(G, X.T @ X, atol=1e-8)
    columns = np.stack([problem.gram(np.arange(40), i) for i in range(40)], axis=1)
    assert np.allclose(columns, X.T @ X, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("make", [crowd, skewed_crowd])
def test_low_rank_root_squares_to_the_covariance_of_the_copies(make: Callable[..., Any], solver: str) -> None:
    design = fixed_design(sums_of(make(np.random.default_rng(3))), ALL)
    knockoffs = FixedKnockoffs(design, solver=solver)
    C, symmetric = knockoffs.root(), symmetric_root(np.eye(20) - design.F.T @ design.F, knockoffs.slack.s)
    assert np.allclose(C.T @ C, symmetric @ symmetric, atol=1e-8)


def test_fixed_design_residual_sum_of_squares_equals_dense_least_squares() -> None:
    answers = crowd(np.random.default_rng(4), graded=True)
    design = fixed_design(sums_of(answers), ALL)
    D, A = dense_design(answers, 8, 20)
    X = np.concatenate([D, A], axis=1)
    residual = answers.outcome - X @ np.linalg.lstsq(X, answers.outcome, rcond=None)[0]
    assert design.rss == pytest.approx(residual @ residual, abs=1e-9)
    assert design.df == len(answers) - np.linalg.matrix_rank(X)
    assert np.allclose(np.eye(20) - design.F.T @ design.F, project_out(D, A).T @ A, atol=1e-10)


def test_householder_q_is_that_of_the_columns_which_qr_adds_to_the_annotators() -> None:
    answers = crowd(np.random.default_rng(5), n_annotators=6, n_answers=200)
    sums, m = sums_of(answers, n_annotators=6), 6
    q = householder_q(answers, sums, np.arange(m))
    ordered = answers.take(np.argsort(answers.annotator, kind="stable"))
    D, A = dense_design(ordered, 8, m)
    U = np.linalg.svd(project_out(D, A), full_matrices=False)[0]
    added = np.linalg.qr(np.concatenate([U, np.zeros_like(U)], axis=1))[0][:, m:]
    assert np.allclose(added.T @ U, 0.0, atol=1e-12)
    assert np.allclose(np.abs(q), np.abs(added.T @ project_out(D, ordered.outcome[:, None])[:, 0]), atol=1e-9)


def test_spectral_root_squares_to_the_covariance_of_the_copies() -> None:
    design = fixed_design(sums_of(skewed_crowd(np.random.default_rng(3))), ALL)
    low_rank, spectral = FixedKnockoffs(design).root(), FixedKnockoffs(design, q=np.zeros(20)).root()
    assert np.allclose(spectral.T @ spectral, low_rank.T @ low_rank, atol=1e-8)


def test_householder_complement_leaves_nothing_to_chance_so_it_wants_one_draw_of_the_papers_construction() -> None:
    with pytest.raises(ConfigurationError, match="draws=1"):
        KnockoffLBI(complement="householder")
    answers = paper_study(0.1, 0.7, rng=np.random.default_rng(1)).comparisons
    lists = [
        KnockoffLBI(construction="paper", complement="householder", draws=1, seed=seed, path="iss").fit(answers).flagged
        for seed in (1, 2)
    ]
    assert lists[0] == lists[1]
    assert len(lists[0]) >= 45


def test_drawn_q_has_the_distribution_of_a_random_rotation_of_y() -> None:
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


def correlated(seed: int, n: int = 6, m: int = 25) -> Any:
    """F of a design in which s = 1 is not feasible."""
    F = np.random.default_rng(seed).normal(size=(n, m))
    return F * np.sqrt(0.9) / np.linalg.norm(F, 2)


def entropy(F: Any, s: Any) -> Any:
    """``log det diag(s) + log det(2 Sigma - diag(s))``, densely."""
    sign, determinant = np.linalg.slogdet(2 * (np.eye(F.shape[1]) - F.T @ F) - np.diag(s))
    return np.log(s).sum() + determinant if sign > 0 and (s > 0).all() else -np.inf


def test_slack_where_one_is_feasible_is_one_without_a_solver() -> None:
    design = fixed_design(sums_of(crowd(np.random.default_rng(0))), ALL)
    assert smallest_eigenvalue(design.F) >= 0.5
    chosen = slack(design.F)
    assert (chosen.s == 1.0).all()
    assert chosen.converged
    assert not chosen.near_zero.any()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("solver", SOLVERS)
def test_slack_by_any_solver_is_feasible(seed: int, solver: str) -> None:
    F = correlated(seed)
    s = slack(F, solver=solver).s
    assert np.linalg.eigvalsh(2 * (np.eye(25) - F.T @ F) - np.diag(s))[0] >= -1e-9
    assert ((s >= 0) & (s <= 1)).all()


@pytest.mark.parametrize("seed", range(3))
def test_slack_by_default_maximises_the_entropy_as_a_general_optimiser_does(seed: int) -> None:
    F = correlated(seed, n=3, m=7)
    chosen = slack(F)
    start = np.log(np.full(7, smallest_eigenvalue(F)))
    general = minimize(lambda x: -entropy(F, np.exp(x)), start, method="Nelder-Mead", options=OPTIMISER)
    assert chosen.converged
    assert chosen.s == pytest.approx(np.exp(general.x), abs=1e-3)
    assert entropy(F, chosen.s) >= -general.fun - 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_slack_by_default_satisfies_the_optimality_condition_and_stays_off_zero(seed: int) -> None:
    F = correlated(seed)
    chosen = slack(F)
    inverse = np.linalg.inv(2 * (np.eye(25) - F.T @ F) - np.diag(chosen.s))
    assert 1 / chosen.s == pytest.approx(np.diag(inverse), rel=1e-3)
    assert (chosen.s <= 1 - (F**2).sum(axis=0) + 1e-4).all()  # s_j <= Sigma_jj
    assert not chosen.near_zero.any()


@pytest.mark.parametrize("seed", range(4))
def test_slack_by_coordinate_ascent_reaches_the_semidefinite_program(seed: int) -> None:
    F = correlated(seed)
    exact, fast = slack(F, solver="cvxpy").s, slack(F, solver="sdp").s
    assert fast.sum() >= exact.sum() - 1e-3 * 25
    assert fast.sum() >= 25 * min(1.0, 2 * smallest_eigenvalue(F)) - 1e-3


def test_slack_at_a_corner_names_those_whose_copy_equals_themselves() -> None:
    # one annotator answers for much of what all others share: the program gives all slack to the many
    F = np.sqrt(0.4) * np.array([[1.0, *[0.3] * 12]])
    corner, interior = slack(F, solver="sdp"), slack(F)
    assert corner.near_zero.tolist() == [True] + [False] * 12
    assert not interior.near_zero.any()


def test_slack_of_a_singular_design_is_refused() -> None:
    with pytest.raises(DesignError, match="both orders"):
        slack(np.array([[1.0, 0.0], [0.0, 0.3]]))
    with pytest.raises(ConfigurationError, match="cvxpy"):
        slack(np.zeros((1, 1)), solver="simplex")


def test_null_races_with_interior_slack_are_won_by_the_own_column_half_of_the_time() -> None:
    won = lost = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        answers = skewed_crowd(rng)
        theta, gamma = rng.normal(size=8), np.where(ALL < 4, 1.0, 0.0)
        y = theta[answers.left] - theta[answers.right] + gamma[answers.annotator] + rng.normal(size=len(answers))
        drawn = FixedKnockoffs(fixed_design(sums_of(replace(answers, outcome=y)), ALL))
        assert (drawn.slack.s < 1).any()
        _, result = race_results(follow(drawn.draw(rng), "iss").entry, 20)
        won, lost = won + (result[4:] > 0).sum(), lost + (result[4:] < 0).sum()
    assert won + lost > 800
    assert won / (won + lost) == pytest.approx(0.5, abs=3 * np.sqrt(0.25 / (won + lost)))


def test_require_rows_with_too_few_answers_names_the_number_missing() -> None:
    with pytest.raises(DesignError, match="Collect 11 more answers"):
        require_rows(99, 50, 10)
    require_rows(110, 50, 10)
