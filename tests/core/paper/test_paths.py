"""Four paths: hand-worked cases, independent solutions, exact ties, the early stop."""

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.linear_model import Lasso

from fdr_core.design import DenseItems, SparseItems
from fdr_core.errors import ConfigurationError
from fdr_core.paper import copies as fixed
from fdr_core.paper.copies import FlipDesign
from fdr_core.paper.draws import Fixed, Flips, loss_limit, race_results, select
from fdr_core.paper.paths import PATHS, PathProblem, Races, follow, iss, lasso, lbi, marginal
from fdr_core.projection import fixed_design
from tests.core.cases import crowd, sums_of
from tests.core.dense import dense_design, printed_lbi, project_out


def twin_problem(rng: Generator, sign: float) -> PathProblem:
    """Six columns, the last an exact copy (or the negative) of the first."""
    F = 0.25 * rng.normal(size=(5, 6))
    F[4] = 0.0
    F[4, 0] = np.sqrt(0.5)
    F[:, 5] = sign * F[:, 0] * np.array([1, 1, 1, 1, -1])
    c = np.array([1.5, -2.0, 0.7, 1.0, -0.3, 1.5 * sign])
    return PathProblem(c, np.ascontiguousarray(F.T), 6, 1)


class GramProblem(PathProblem):
    """Any Gram matrix, also one that is not identity minus something positive."""

    G: NDArray[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> "GramProblem":
        return object.__new__(cls)

    def __init__(
        self, G: NDArray[Any] | list[Any], c: NDArray[Any] | list[Any], *, m: int | None = None, lanes: int = 1
    ) -> None:
        super().__init__(np.asarray(c, dtype=float), np.zeros((len(c), 1)), m or len(c), lanes)
        object.__setattr__(self, "G", np.asarray(G, dtype=float))

    def velocity(self, gamma: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.c - self.G @ gamma)

    def gram(self, one: NDArray[Any], other: int) -> NDArray[Any]:
        return np.asarray(self.G[one, other].copy())


def random_gram(rng: Generator, size: int, n_rows: int) -> tuple[Any, ...]:
    """Correlated unit columns and a response with a few true effects."""
    X = rng.normal(size=(n_rows, size)) + 0.6 * rng.normal(size=(n_rows, 1))
    X /= np.linalg.norm(X, axis=0)
    y = X[:, :3] @ np.array([2.0, -1.5, 1.0]) + 0.3 * rng.normal(size=n_rows)
    return X, y, GramProblem(X.T @ X, X.T @ y)


def own_problem(rng: Generator, **options: Any) -> tuple[Any, ...]:
    answers = crowd(rng, **options)
    return answers, fixed.own_problem(fixed_design(sums_of(answers), np.arange(20)))


@pytest.mark.parametrize("path", PATHS)
def test_path_of_orthogonal_columns_enters_each_at_its_correlation(path: str) -> None:
    c = np.array([0.5, -2.0, 1.0])
    result = follow(PathProblem(c, np.zeros((3, 1)), 3, 1), path)
    assert result.entry == pytest.approx(np.abs(c), rel=1e-9)
    assert result.converged


@pytest.mark.parametrize("path", PATHS)
def test_path_without_any_correlation_enters_nothing(path: str) -> None:
    result = follow(PathProblem(np.zeros(3), np.zeros((3, 1)), 3, 1), path, record=True)
    assert (result.entry == 0).all()
    assert result.gamma.shape == (0, 3)


@pytest.mark.parametrize("path", PATHS)
def test_path_with_a_column_that_never_moves_ends_without_it(path: str) -> None:
    result = follow(PathProblem(np.array([1.0, 0.0]), np.zeros((2, 1)), 2, 1), path, record=True)
    assert result.entry == pytest.approx([1.0, 0.0])
    assert np.isfinite(result.times).all()
    assert np.isfinite(result.gamma).all()


def test_two_correlated_columns_worked_by_hand_enter_where_they_should() -> None:
    # G12 = 1/2, c = (2, 1.5). LASSO: column 1 alone, r2 = 1.5 - (2 - lam)/2 = .5 + lam/2 = lam  =>  lam = 1.
    # ISS: t1 = 1/2, gamma1 = 2, then p2 moves at 1.5 - 1 = .5 from .75: t2 = .5 + .25/.5 = 1.
    problem = GramProblem([[1.0, 0.5], [0.5, 1.0]], [2.0, 1.5])
    assert lasso(problem).entry == pytest.approx([2.0, 1.0])
    flow = iss(problem, record=True)
    assert flow.entry == pytest.approx([2.0, 1.0])
    assert flow.times == pytest.approx([0.5, 1.0])
    assert flow.gamma == pytest.approx(np.array([[2.0, 0.0], [5 / 3, 2 / 3]]))


def test_marginal_path_with_recording_shows_the_correlations_that_entered() -> None:
    result = marginal(PathProblem(np.array([1.0, -2.0]), np.zeros((2, 1)), 2, 1), record=True)
    assert result.times == pytest.approx([0.5, 1.0])
    assert result.gamma == pytest.approx(np.array([[0.0, -2.0], [1.0, -2.0]]))


def test_follow_with_an_unknown_path_names_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="iss, lasso, lbi, marginal"):
        follow(PathProblem(np.ones(1), np.zeros((1, 1)), 1, 1), "ridge")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_algorithm_one_as_printed_has_the_entry_order_of_the_projected_iteration(seed: int) -> None:
    answers, problem = own_problem(np.random.default_rng(seed), n_answers=400)
    D, A = dense_design(answers, 8, 20)
    top, kappa = np.abs(problem.c).max(), 100.0
    scale = np.linalg.norm(np.concatenate([D, A], axis=1), 2) ** 2
    dt = 1.0 / (kappa * top * scale)
    printed = printed_lbi(D, A, answers.outcome, kappa=kappa * top, dt=dt, steps=int(5.0 / top / dt))
    entered = np.isfinite(printed)
    assert entered.sum() >= 8
    fast = lbi(problem, kappa=kappa, step=0.05).entry
    assert printed[entered] == pytest.approx(1.0 / fast[entered], rel=0.03)
    clear = np.diff(np.sort(printed[entered]), append=np.inf) > 2e-3 * printed[entered].max()
    first_clear = int(np.flatnonzero(~clear)[0]) if (~clear).any() else int(entered.sum())
    order = np.argsort(printed)[: max(first_clear, 4)]
    assert order.tolist() == np.argsort(-fast)[: len(order)].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_lbi_with_growing_kappa_approaches_iss(seed: int) -> None:
    _, problem = own_problem(np.random.default_rng(seed))
    exact = iss(problem).entry
    errors = [np.abs(lbi(problem, kappa=kappa).entry - exact).max() / exact.max() for kappa in (10.0, 100.0, 1000.0)]
    assert errors[1] < 0.02
    assert errors[2] < 0.002
    assert errors[0] > errors[2]
    assert np.corrcoef(lbi(problem).entry, exact)[0, 1] > 0.999


@pytest.mark.parametrize("seed", range(4))
def test_iss_between_events_solves_the_sign_constrained_least_squares_problem(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, problem = random_gram(rng, 12, 40)
    flow = iss(problem, record=True, floor=0.002)
    p, before, gamma = np.zeros(12), 0.0, np.zeros(12)
    for t, after in zip(flow.times, flow.gamma, strict=True):
        p = p + (t - before) * X.T @ (y - X @ gamma)  # p is the integral of the residual correlations
        assert np.abs(p).max() <= 1 + 1e-7
        boundary = np.flatnonzero(np.abs(p) >= 1 - 1e-7)
        signs = np.sign(p[boundary])
        positive, _ = nnls(X[:, boundary] * signs, y)
        expected = np.zeros(12)
        expected[boundary] = signs * positive
        assert after == pytest.approx(expected, abs=1e-7)
        before, gamma = t, after
    assert (flow.entry > 0).sum() >= 8


@pytest.mark.parametrize("seed", range(3))
def test_iss_entry_times_equal_those_of_a_fine_lbi_on_correlated_columns(seed: int) -> None:
    _, _, problem = random_gram(np.random.default_rng(10 + seed), 6, 30)
    flow = iss(problem)
    gamma, t, top = np.zeros(6), 0.0, np.abs(problem.c).max()
    z, kappa, entry = np.zeros(6), 1e3 * top, np.full(6, np.inf)
    dt = 0.5 / (kappa * np.linalg.eigvalsh(problem.G)[-1])
    while t < 6.0 / top:
        z += dt * problem.velocity(gamma)
        gamma = kappa * (z - np.clip(z, -1, 1))
        t += dt
        entry[(gamma != 0) & np.isinf(entry)] = t
    entered = np.isfinite(entry)
    assert entered.sum() >= 2
    assert 1.0 / flow.entry[entered] == pytest.approx(entry[entered], rel=0.02)


def lasso_at(problem: PathProblem | GramProblem, X: NDArray[Any], y: NDArray[Any], lam: Any) -> NDArray[Any]:
    model = Lasso(alpha=lam / len(y), fit_intercept=False, tol=1e-13, max_iter=500_000)
    return np.asarray(model.fit(X, y).coef_)


@pytest.mark.parametrize("seed", range(4))
def test_lasso_knots_equal_scikit_learn_between_and_at_them(seed: int) -> None:
    X, y, problem = random_gram(np.random.default_rng(seed), 12, 40)
    path = lasso(problem, record=True)
    knots = np.concatenate([[np.abs(problem.c).max()], 1.0 / path.times])
    solutions = np.concatenate([np.zeros((1, 12)), path.gamma])
    for a, b, start, end in zip(knots[:-1], knots[1:], solutions[:-1], solutions[1:], strict=True):
        for share in (0.5, 1.0):  # the path is linear between knots
            lam, expected = a + share * (b - a), start + share * (end - start)
            assert lasso_at(problem, X, y, lam) == pytest.approx(expected, abs=2e-6)
    for column, lam in enumerate(path.entry):
        if lam > 0:
            r = X.T @ (y - X @ lasso_at(problem, X, y, lam))
            assert abs(r[column]) == pytest.approx(lam, rel=1e-5)


def test_lasso_on_an_annotator_design_equals_scikit_learn_at_many_lambdas() -> None:
    answers, problem = own_problem(np.random.default_rng(5), graded=True)
    D, A = dense_design(answers, 8, 20)
    X, y = project_out(D, A), project_out(D, answers.outcome[:, None])[:, 0]
    path = lasso(problem, record=True, floor=0.02)
    top = np.abs(problem.c).max()
    knots, solutions = np.concatenate([[top], 1.0 / path.times]), np.concatenate([np.zeros((1, 20)), path.gamma])
    for lam in np.geomspace(0.95, 0.03, 25) * top:
        expected = [np.interp(-lam, -knots, solutions[:, j]) for j in range(20)]
        assert lasso_at(problem, X, y, lam) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_path_with_a_duplicated_or_negated_column_enters_both_at_once(path: str, sign: float) -> None:
    problem = twin_problem(np.random.default_rng(1), sign)
    others = np.arange(5)
    assert problem.gram(others, 5) == pytest.approx(sign * problem.gram(others, 0))
    result = follow(problem, path)
    assert result.entry[5] == pytest.approx(result.entry[0], rel=1e-9)
    assert result.entry[0] > 0
    assert result.converged


def tied_but_crowded_out() -> "GramProblem":
    """Three columns tie at the start, but least squares on all three gives the third the wrong sign."""
    rho = 0.6
    return GramProblem([[1.0, 0.0, rho], [0.0, 1.0, rho], [rho, rho, 1.0]], [1.0, 1.0, 1.0])


def test_iss_where_a_tied_column_is_crowded_out_leaves_it_out_until_it_enters_from_the_other_side() -> None:
    problem = tied_but_crowded_out()
    flow = iss(problem, record=True)
    assert flow.gamma[0] == pytest.approx([1.0, 1.0, 0.0])
    assert flow.times == pytest.approx([1.0, 11.0])  # p3 falls from 1 to -1 at speed .2
    assert flow.gamma[1] == pytest.approx(np.linalg.solve(problem.G, problem.c))


def test_lasso_where_a_tied_column_is_crowded_out_leaves_it_out_until_it_enters_from_the_other_side() -> None:
    problem = tied_but_crowded_out()
    path = lasso(problem, record=True)
    for time, gamma in zip(path.times, path.gamma, strict=True):
        r, lam = problem.velocity(gamma), 1.0 / time
        assert (np.abs(r) <= lam + 1e-9).all()
        assert r[gamma != 0] == pytest.approx(lam * np.sign(gamma[gamma != 0]))
    assert 1.0 / path.times == pytest.approx([1.0, 0.2 / 2.2, 0.01])
    assert path.gamma[-1][2] < 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("construction", ["flip", "paper"])
@pytest.mark.parametrize("cut", [0.0, 1.0])
def test_early_stop_selects_what_the_whole_path_selects(path: str, construction: str, cut: float) -> None:
    stops = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        answers = crowd(rng, n_answers=800)
        made: Fixed | Flips
        if construction == "paper":
            made = Fixed(fixed_design(sums_of(answers), np.arange(20)))
        else:
            design = FlipDesign(answers, n_items=8, n_annotators=20, judged=np.arange(20), ridge=5.0)
            made = Flips(design, copies=5, seed=seed, path=path)
        problem = made.draw(0, np.random.default_rng(seed))
        selected = []
        for limit in (loss_limit(20, 0.2, cut, made.copies), np.inf):
            races = Races(problem, close=made.closes_races, limit=limit, rng=np.random.default_rng(seed))
            result = follow(problem, path, races=races)
            stops += result.stopped_early and limit < np.inf
            chosen = select(*race_results(result.entry, 20), q=0.2, offset=cut, copies=made.copies)
            selected.append(chosen.selected)
        assert selected[0].tolist() == selected[1].tolist()
    assert stops > 0 or path == "marginal"


@pytest.mark.parametrize("path", ["lbi", "iss", "lasso"])
def test_path_on_sparse_items_equals_the_dense_one(path: str) -> None:
    answers = crowd(np.random.default_rng(3))
    sums = sums_of(answers)
    design = FlipDesign(answers, n_items=8, n_annotators=20, judged=np.arange(20), ridge=5.0)
    dense = design.own_problem()
    counts = sums.B.T.tocsr().multiply(1.0 / np.sqrt(sums.counts)[:, None]).tocsr()
    sparse = PathProblem(dense.c, counts, 20, 1, solver=SparseItems(sums.laplacian, 5.0))
    assert follow(sparse, path).entry == pytest.approx(follow(dense, path).entry, rel=1e-6)
    assert sparse.gram(np.arange(20), 3) == pytest.approx(dense.gram(np.arange(20), 3), abs=1e-9)
    assert DenseItems(sums.laplacian, 5.0).rank == SparseItems(sums.laplacian, 5.0).rank


def test_races_with_tied_columns_draw_the_winner_uniformly() -> None:
    problem = PathProblem(np.ones(4), np.zeros((4, 1)), 1, 4)
    rng = np.random.default_rng(0)
    wins = np.zeros(4)
    for _ in range(2000):
        races = Races(problem, close=True, limit=1.0, rng=rng)
        enters = races.enter(np.arange(4), np.full(4, 1.0))
        assert enters.sum() == 1
        assert races.is_open.tolist() == enters.tolist()
        assert races.over
        wins += enters
    assert wins / 2000 == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 2000))


def test_races_that_do_not_close_count_a_tie_as_neither_win_nor_loss() -> None:
    problem = PathProblem(np.ones(4), np.zeros((4, 1)), 2, 2)
    races = Races(problem, close=False, limit=0.5, rng=np.random.default_rng(0))
    assert races.enter(np.array([0, 2]), np.array([1.0, 1.0])).all()
    assert not races.over
    races.enter(np.array([3]), np.array([0.5]))  # the knockoff of annotator 1: a loss, beyond the limit
    assert races.over
