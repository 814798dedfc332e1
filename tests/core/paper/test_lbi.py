"""Knockoff LBI in one call: the list, its shares, the budget, who cannot be selected, what ends early."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fdr_core.answer_table import AnswerTable
from fdr_core.audit import audit
from fdr_core.comparisons import Comparisons
from fdr_core.design import ridge_for
from fdr_core.paper import problem as paths_problem
from fdr_core.paper.copies import FlipDesign
from fdr_core.paper.draws import Budget, Draws, Fixed, Flips, Rule, loss_limit, run_draws
from fdr_core.paper.knockoff_lbi import KnockoffLBI
from fdr_core.paper.paths import Path, lbi
from fdr_core.paper.problem import PathProblem, Races
from fdr_core.paper.run import copies_for
from fdr_core.projection import FixedDesign, fixed_design
from fdr_core.selection import e_bh
from tests.core.cases import crowd, sums_of

ALL = np.arange(20)


class Clock:
    """Seconds that pass by a fixed amount every time one looks."""

    def __init__(self, step: Any) -> None:
        self.now, self._step = 0.0, step

    def __call__(self) -> Any:
        self.now += self._step
        return self.now


def opinion(
    crowd_seed: int = 0, *, construction: Any = "flip", judged: Any = ALL, clock: Any = None, **fields: Any
) -> Any:
    answers = crowd(np.random.default_rng(crowd_seed), n_answers=1200, bias=0.9)
    at: dict[str, Any] = {"answers": answers, "sums": sums_of(answers), "construction": construction, "judged": judged}
    return KnockoffLBI(**{"variance": "plain", "seconds": None, **fields}).run(clock=clock, **at)


@pytest.mark.parametrize("construction", ["flip", "paper"])
def test_run_lbi_on_a_crowd_with_four_leaning_selects_them_and_says_how_often(construction: Any) -> None:
    result = opinion(construction=construction, cut="knockoff", draws=7)
    assert {0, 1, 2, 3} <= set(result.chosen)
    assert len(result.chosen) <= 6
    assert result.share.shape == result.e_values.shape == result.entry.shape == (20,)
    assert (result.share[:4] > 0.5).all()
    assert (np.diff(result.share[result.chosen]) <= 0).all()
    assert result.W.shape == (7, 20)
    assert (result.W[:, :4] > 0).mean() > 0.5
    assert (result.draws_asked, result.draws_done) == (7, 7)
    assert result.converged
    assert result.n_slack_near_zero == 0
    assert len(result.path.times) == len(result.path.gamma) > 0


def test_run_lbi_equals_the_draws_done_by_hand() -> None:
    answers = crowd(np.random.default_rng(3))
    judged = np.arange(2, 20)
    at: dict[str, Any] = {"answers": answers, "sums": sums_of(answers), "construction": "flip", "judged": judged}
    result, by_e_values = (KnockoffLBI(draws=5, seed=4, aggregate=how).run(**at) for how in ("majority", "evalues"))
    design = FlipDesign(answers, n_items=8, n_annotators=20, judged=judged, ridge=ridge_for(answers))
    by_hand = run_draws(
        Flips(design, copies=10, seed=4, path="lbi"), Rule(0.1, "knockoff+", 5, 4, e_rate=0.05), path="lbi"
    )
    assert result.share.tolist() == by_hand.share.tolist()
    assert result.e_values.tolist() == by_hand.e.tolist()
    assert set(result.chosen) == set(judged[by_hand.share > 0.5])
    assert set(by_e_values.chosen) == set(judged[e_bh(by_hand.e, 0.1)])


def test_run_lbi_of_the_papers_construction_takes_variance_and_slack_solver() -> None:
    answers = crowd(np.random.default_rng(3))
    sums = sums_of(answers)
    lbi = KnockoffLBI(draws=3, slack="sdp", variance="plain")
    result = lbi.run(answers=answers, sums=sums, construction="paper", judged=ALL)
    by_hand = run_draws(Fixed(fixed_design(sums, ALL), solver="sdp"), Rule(0.1, "knockoff+", 3, 0), path="lbi")
    assert result.share.tolist() == by_hand.share.tolist()
    assert result.copies == 1
    plain, two_pass = (opinion(construction="paper", draws=3, variance=v).W for v in ("plain", "two-pass"))
    assert (plain != two_pass).any()


@pytest.mark.parametrize("options", [{"construction": "none"}, {"judged": np.arange(0)}])
def test_run_lbi_where_nobody_can_be_judged_selects_nobody_without_drawing(options: Any) -> None:
    result = opinion(**options)
    assert len(result.chosen) == 0
    assert result.draws_done == 0
    assert len(result.share) == len(result.judged)


def test_run_lbi_twice_gives_the_same_and_with_another_seed_other_draws() -> None:
    one, again, other = (opinion(seed, draws=3) for seed in (1, 1, 2))
    assert one.W.tolist() == again.W.tolist()
    assert one.W.tolist() != other.W.tolist()


def test_run_lbi_within_a_budget_does_the_first_of_the_same_draws_and_says_how_many() -> None:
    whole = opinion(draws=9)
    partly = opinion(draws=9, seconds=4.5, clock=Clock(1.0))
    assert partly.draws_asked == 9
    assert 1 <= partly.draws_done < 9
    assert partly.W.tolist() == whole.W[: partly.draws_done].tolist()
    least = opinion(draws=9, seconds=0.1, clock=Clock(1.0))
    assert least.draws_done == 1


def test_budget_without_a_clock_has_always_room() -> None:
    budget = Budget(0.0)
    budget.start_draws()
    assert budget.has_room()
    assert Budget(math.inf, Clock(1e9)).has_room()


def test_budget_leaves_room_for_the_longest_draw_so_far() -> None:
    times = iter([0.0, 2.0, 5.0, 6.0])  # begun, draws start, first draw took 3, second 1
    budget = Budget(8.5, lambda: next(times))
    budget.start_draws()
    assert budget.has_room()
    assert not budget.has_room()  # 6 + 3 > 8.5


def test_path_that_runs_out_of_steps_is_reported_as_not_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short = Path(np.zeros(20 * 11), 1, False, False, np.zeros(0), np.zeros((0, 220)))
    monkeypatch.setattr("fdr_core.paper.draws.follow", lambda *_, **__: cut_short)
    assert not opinion(draws=1).converged


def test_annotator_whose_copy_equals_itself_is_selected_in_no_draw_and_named() -> None:
    F = np.sqrt(0.4) * np.array([[1.0, *[0.3] * 12]])
    design = FixedDesign(F, c=np.array([5.0, *[3.0] * 4, *[0.1] * 8]), df=200, rss=100.0)
    rule = Rule(0.3, "knockoff", 5, 0)
    corner, interior = Fixed(design, solver="sdp"), Fixed(design)
    assert np.flatnonzero(corner.slack.near_zero).tolist() == [0]
    assert run_draws(corner, rule, path="lbi").share[0] == 0.0
    assert run_draws(interior, rule, path="lbi").share[0] == 1.0


def test_copies_by_default_let_a_single_annotator_be_selected_in_small_crowds() -> None:
    assert copies_for(30, 0.1, "flip") == 10
    assert copies_for(30, 0.2, "flip") == 5
    assert copies_for(10_000, 0.1, "flip") == 5
    assert copies_for(30, 0.1, "paper") == 1


def test_own_path_of_a_large_crowd_is_one_look_at_the_correlations() -> None:
    rng = np.random.default_rng(0)
    answers = crowd(rng, n_annotators=2100, n_answers=8000, n_biased=0)
    sums = sums_of(answers, n_annotators=2100)
    lbi = KnockoffLBI(draws=1, path="marginal")
    result = lbi.run(answers=answers, sums=sums, construction="flip", judged=np.arange(2100))
    assert len(result.path.times) == 0
    assert (result.entry > 0).sum() > 2000


def followed_by_all(problem: Any, races: Any) -> Any:
    """The iteration as printed in Gram form, every column at every step; entry levels."""
    size, top = len(problem.c), np.abs(problem.c).max()
    kappa, dt = 100.0 * top, 1.0 / (100.0 * top * problem.norm_bound)
    w, gamma, entry, t = np.zeros(size), np.zeros(size), np.zeros(size), 0.0
    while not races.over and t * top * 0.01 < 1.0:
        v = problem.velocity(gamma)
        v[~races.is_open] = 0.0
        entered, waiting = entry > 0, (entry == 0) & races.is_open
        step = dt
        if np.abs(v[entered]).max(initial=0.0) <= 1e-4 * top:
            step = max(dt, ((1 - w * np.sign(v)) / np.maximum(np.abs(v), 1e-300))[waiting & (v != 0)].min())
        after = w + np.where(entered, dt, step) * v
        crossing = np.flatnonzero(waiting & (np.abs(after) >= 1 - 1e-12))
        if len(crossing):
            levels = 1 / (t + (1 - w[crossing] * np.sign(v[crossing])) / np.abs(v[crossing]))
            enters = races.enter(crossing, levels)
            entry[crossing[enters]] = levels[enters]
            after[crossing[enters]] = np.sign(after[crossing[enters]]) * np.maximum(np.abs(after[crossing[enters]]), 1)
        w, t = after, t + step
        gamma = np.where(entry > 0, kappa * np.sign(w) * np.maximum(np.abs(w) - 1, 0), 0.0)
    return entry


@pytest.mark.parametrize("kind", ["flip", "flip, sparse rows", "paper", "paper, linked lanes"])
@pytest.mark.parametrize("seed", range(3))
def test_lbi_that_follows_only_close_columns_enters_them_as_one_that_follows_all(
    seed: int, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    answers = crowd(rng, n_annotators=60, n_items=12, n_answers=900, n_biased=8)
    if kind == "flip, sparse rows":
        monkeypatch.setattr("fdr_core.paper.copies.SMALL", 0)
        monkeypatch.setattr("fdr_core.paper.copies.FILLED", 1.1)
    if kind.startswith("flip"):
        design = FlipDesign(answers, n_items=12, n_annotators=60, judged=np.arange(60), ridge=5.0)
        made: Flips | Fixed = Flips(design, copies=5, seed=seed, path="lbi")
    else:
        made = Fixed(fixed_design(sums_of(answers, 12, 60), np.arange(60)))
    problem = made.draw(0, rng)
    if kind == "paper, linked lanes":
        problem = PathProblem(problem.c, problem.rows, problem.m, 2, link=np.full(problem.m, 0.2))
    limit = loss_limit(60, 0.2, 1.0, made.copies)
    entries = [
        follow(problem, races=Races(problem, close=made.closes_races, limit=limit, rng=np.random.default_rng(1)))
        for follow in (lambda *a, **k: lbi(*a, **k).entry, followed_by_all)
    ]
    assert entries[0] == pytest.approx(entries[1], rel=1e-8, abs=1e-12)
    assert (entries[0] > 0).sum() > 5


def test_lbi_in_single_precision_where_rows_are_large_enters_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = crowd(np.random.default_rng(0), n_annotators=60, n_items=12, n_answers=900, n_biased=8)
    design = FlipDesign(answers, n_items=12, n_annotators=60, judged=np.arange(60), ridge=5.0)
    problem = design.draw(design.flips(0), 0, 5)
    double = lbi(problem).entry
    monkeypatch.setattr("fdr_core.paper.problem.LARGE", 0)
    assert lbi(problem).entry == pytest.approx(double, rel=1e-9)


def test_lbi_with_more_items_than_are_kept_densely_enters_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = crowd(np.random.default_rng(0))
    design = FlipDesign(answers, n_items=8, n_annotators=20, judged=ALL, ridge=5.0)
    dense = lbi(design.own_problem()).entry
    monkeypatch.setattr("fdr_core.paper.copies.DENSE_ITEMS", 4)
    monkeypatch.setattr(paths_problem, "DENSE_ITEMS", 4)
    sparse = FlipDesign(answers, n_items=8, n_annotators=20, judged=ALL, ridge=5.0)
    assert lbi(sparse.own_problem()).entry == pytest.approx(dense, rel=1e-8)


def test_draws_without_any_made_say_so() -> None:
    assert Draws(np.zeros(3), np.zeros(3)).done == 0


@pytest.mark.data
def test_iqa_with_the_papers_method_selects_all_of_the_papers_annotators(dataset: Any, data_folder: Any) -> None:
    frame = pd.read_csv(dataset("iqa_ref1") / "comparisons.csv")
    papers = pd.read_csv(data_folder / "paper_tables" / "table7_iqa_ref1.csv")["annotator"]
    table = AnswerTable.of(Comparisons.from_frame(frame))
    design = audit(table.audit_input(), q=0.1, method="paper")
    run: dict[str, Any] = {
        "answers": table.answers.with_coin(design.coin),
        "sums": table.sums,
        "construction": "paper",
        "judged": np.flatnonzero(design.assessable_by_lbi),
    }
    found = KnockoffLBI(construction="paper").run(**run)
    assert len(papers) == 20
    assert set(papers) <= set(table.annotators[found.chosen])
    assert len(found.chosen) <= 26
    assert found.n_slack_near_zero == 0
    corner = KnockoffLBI(construction="paper", slack="sdp").run(**run)
    assert corner.n_slack_near_zero > 10
    assert len(set(papers) & set(table.annotators[corner.chosen])) < 20
