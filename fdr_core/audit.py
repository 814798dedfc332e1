"""Is this design fit to judge anybody, and by which construction? Decided before any annotator is looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdr_core.design import DENSE_ITEMS, components_of, information_left, item_solver
from fdr_core.errors import ConfigurationError, DesignError
from fdr_core.knockoffs.flip import ridge_for
from fdr_core.knockoffs.paper import fixed_design, require_rows
from fdr_core.knockoffs.signs import mix
from fdr_core.statistics import Answers, Sums, sum_answers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SIDES = ("audit", "random", "not random")
METHODS = ("auto", "flip", "paper")

#: |z| beyond which sides are taken as not random; stricter for small teams, where a flip in error weighs more.
Z_LIMIT, Z_LIMIT_SMALL_TEAM, SMALL_TEAM = 2.58, 1.96, 30
#: A lean of the design is harmless while ``lean x sqrt(90th percentile of n_j)`` stays below this (measured).
HARMLESS = 0.7
#: Coins, less what theta absorbs, from which a lean can be told by likelihood: three answers, all on one side.
FEWEST_COINS = 2.5
#: Fewer distinct coins than this, shared between annotators, deserve a word beside every flag.
FEW_COINS = 100
#: Below this smallest eigenvalue of Sigma biases and item scores are not separable.
SEPARABLE = 1e-3
#: Fewer skips than this cannot be tested for a relation to the side.
MIN_SKIPS = 20


@dataclass(frozen=True)
class Audit:
    """The decision, with its reasons, what would help, and the figures behind it.

    Attributes
    ----------
    construction : "flip" (coins flipped anew), "paper" (sides held fixed, as in the paper) or "none".
    assessable : (m,) whether each annotator has enough answers to be judged.
    more_needed : (m,) about how many more answers each would need.
    coin : (rows,) the coin of every row of answers as it is used.
    """

    construction: str
    reasons: list[str]
    remedies: list[str]
    figures: Mapping[str, Any]
    assessable: NDArray[np.bool_] = field(repr=False)
    more_needed: Ints = field(repr=False)
    coin: Ints = field(repr=False)

    @property
    def shares_coins(self) -> bool:
        """Whether one coin decided the side for several annotators."""
        return bool(self.figures["shared_coins"])


@dataclass(frozen=True)
class AuditInput:
    """What the audit looks at."""

    answers: Answers
    sums: Sums
    coin_source: str
    skips: tuple[Ints, Ints, Floats] = field(
        default_factory=lambda: (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    )
    excluded: Mapping[str, int] = field(default_factory=dict)


def audit(data: AuditInput, *, q: float, method: str = "auto", sides: str = "audit") -> Audit:
    """Decide between coin flips, the paper's construction, and no verdict.

    Raises
    ------
    ConfigurationError
        For unknown options, or ``method="flip"`` where the owner says that sides were not random.
    DesignError
        For ``method="paper"`` on a design that has too few answers for it.
    """
    _check_options(method, sides)
    coin = effective_coins(data.answers, data.coin_source)
    answers = data.answers.with_coin(coin)
    figures = _describe(answers, data)
    verdict = _Verdict(figures)
    assessable, more = _assessable(answers, data.sums, q)
    figures["assessable"] = int(assessable.sum())
    construction = _decide(answers, data, assessable, verdict, method, sides, q)
    if construction == "paper":
        assessable, more = _assessable(answers, data.sums, q, ridge=0.0)
        figures["assessable"] = int(assessable.sum())
    return Audit(construction, verdict.reasons, verdict.remedies, figures, assessable, more, coin)


def effective_coins(answers: Answers, coin_source: str) -> Ints:
    """The coin of every row: as recorded; without ids a pair that always stands in one orientation is one coin.

    Unless pairs keep one orientation no more often than fair coins per answer would have it: then every answer keeps
    its own.
    """
    if coin_source != "own" or not len(answers):
        return answers.coin
    low, high = np.minimum(answers.left, answers.right), np.maximum(answers.left, answers.right)
    _, pair = np.unique(low * (high.max() + 1) + high, return_inverse=True)
    forward = np.bincount(pair, answers.left == low)
    shown = np.bincount(pair)
    one_way = (shown > 1) & ((forward == 0) | (forward == shown))
    by_chance = np.where(shown > 1, 2.0 ** (1.0 - np.minimum(shown, 60)), 0.0)
    spread = math.sqrt(float((by_chance * (1.0 - by_chance)).sum()))
    if one_way.sum() <= by_chance.sum() + 3.0 * spread:
        return answers.coin
    return np.where(one_way[pair], answers.coin.max() + 1 + pair, answers.coin)


def sides_z(answers: Answers, n_items: int, n_annotators: int) -> tuple[float, int]:
    """Were the better items placed on one side? z over coins, with item scores from the other half of the data.

    Half of the coins (own coins: half of the annotators) fit theta with the ridge, the other half contributes one
    ``x = theta[left] - theta[right]`` per coin, both ways; ``z = sum x / sqrt(sum x^2)``.

    Returns
    -------
    z and the number of coins it rests on.
    """
    coins, coin = np.unique(answers.coin, return_inverse=True)
    per_coin = np.bincount(coin, answers.weight)
    shared = float(answers.weight[per_coin[coin] > 1].sum()) > 0.5 * float(answers.weight.sum())
    half = _halves(coin if shared or n_annotators < 2 else answers.annotator)
    total, square, n_coins = 0.0, 0.0, 0
    for side in (0, 1):
        fit, test = answers.take(half == side), answers.take(half != side)
        theta = _ridge_scores(fit, n_items, n_annotators)
        test_coin = coin[half != side]
        gap = np.bincount(test_coin, test.weight * (theta[test.left] - theta[test.right]), minlength=len(coins))
        x = gap / np.maximum(np.bincount(test_coin, test.weight, minlength=len(coins)), 1e-300)
        informative = np.abs(x) > 1e-12
        total += float(x.sum())
        square += float((x**2).sum())
        n_coins += int(informative.sum())
    return (total / math.sqrt(square) if square > 0 else 0.0), n_coins


def _check_options(method: str, sides: str) -> None:
    if method not in METHODS:
        raise ConfigurationError(f"method was {method!r}; expected one of {', '.join(METHODS)}")
    if sides not in SIDES:
        raise ConfigurationError(f"sides was {sides!r}; expected one of {', '.join(SIDES)}")
    if method == "flip" and sides == "not random":
        raise ConfigurationError(
            "method='flip' needs sides assigned by chance, but sides='not random' was given; "
            "use method='paper' or 'auto', or sides='random' if coins decided after all"
        )


class _Verdict:
    """Collects reasons and remedies while the decision is made."""

    def __init__(self, figures: dict[str, Any]) -> None:
        self.figures = figures
        self.reasons: list[str] = []
        self.remedies: list[str] = []

    def say(self, reason: str, remedy: str | None = None) -> None:
        self.reasons.append(reason)
        if remedy:
            self.remedies.append(remedy)


def _decide(
    answers: Answers,
    data: AuditInput,
    assessable: NDArray[np.bool_],
    verdict: _Verdict,
    method: str,
    sides: str,
    q: float,
) -> str:
    figures = verdict.figures
    if figures["components"] > 1:
        verdict.say(
            f"The items fall into {figures['components']} groups never compared with each other; each is ranked on its "
            "own."
        )
    if figures["shared_coins"] and figures["coins"] < FEW_COINS:
        verdict.say(
            f"Only {figures['coins']} distinct coins decided the sides for everybody; with fewer than {FEW_COINS} an "
            "unlucky set of sides can touch many annotators at once.",
            "Assign sides anew for more tasks before acting on a flag.",
        )
    if method == "paper":
        require_rows(figures["answers"], int(assessable.sum()) or figures["annotators"], figures["items"])
    if not assessable.any():
        verdict.say("No annotator has enough answers to be judged yet.", "Collect more answers per annotator.")
        return "none"
    if figures["sides_never_swapped"]:
        verdict.say(
            "Sides were never swapped: every item always stood on the same side, so a preference for a side cannot be "
            "told from a preference for the items there.",
            "Assign sides by chance: `evenhand prepare` writes tasks with recorded coin flips.",
        )
        return "none"
    if method == "paper" or sides == "not random":
        if sides == "not random":
            verdict.say("The owner states that sides were not assigned by chance.")
        return _paper_if_separable(answers, data, assessable, verdict, q, insist=method == "paper")
    random_sides = _sides_are_random(answers, verdict, sides, recorded=data.coin_source == "coin", skips=data.skips)
    if random_sides or method == "flip":
        if not random_sides:
            verdict.say(
                "Coin flips were asked for explicitly; with sides that were not random their error rate is not "
                "controlled."
            )
            figures["forced"] = True
        return "flip"
    if random_sides is None:
        return "none"
    return _paper_if_separable(answers, data, assessable, verdict, q, insist=False)


def _sides_are_random(
    answers: Answers, verdict: _Verdict, sides: str, *, recorded: bool, skips: tuple[Ints, Ints, Floats]
) -> bool | None:
    """True, False, or None where nobody can tell."""
    figures = verdict.figures
    z, n_coins = sides_z(answers, figures["items"], figures["annotators"])
    limit = Z_LIMIT_SMALL_TEAM if figures["annotators"] < SMALL_TEAM else Z_LIMIT
    lean = abs(z) / (0.8 * math.sqrt(n_coins)) if n_coins else 0.0
    figures.update(sides_z=round(z, 4), sides_z_limit=limit, sides_z_coins=n_coins, sides_lean=round(lean, 4))
    if sides == "random":
        verdict.say("The owner states that coins decided the sides.")
        if abs(z) > limit:
            verdict.say(
                f"The better items do stand on one side more often than chance would have it (z = {z:.2f}); please "
                "check."
            )
        return True
    if figures["items_under_one_coin"] > 0.5:
        return _untestable(verdict, recorded)
    harmless = lean * math.sqrt(figures["answers_90th_percentile"]) <= HARMLESS
    if abs(z) > limit and not harmless:
        verdict.say(
            f"Sides do not look random: the better item stands {'left' if z > 0 else 'right'} too often (z = {z:.2f}, "
            f"limit {limit}).",
            "Assign sides by chance for the next tasks: `evenhand prepare` does it and records the coins.",
        )
        return False
    if _skips_void_the_coin(answers, skips, verdict):
        return False
    note = "" if abs(z) <= limit else f" (z = {z:.2f} is beyond {limit}, but too weak a lean to matter at these sizes)"
    verdict.say(f"Sides look random: z = {z:.2f} over {n_coins} coins{note}.")
    return True


def _untestable(verdict: _Verdict, recorded: bool) -> bool | None:
    if recorded:
        verdict.say("Most items occur under one coin only, so sides cannot be tested; the recorded coins are trusted.")
        return True
    verdict.say(
        "Cannot be judged: most items occur under one coin only, so a leaning crowd cannot be told from better items "
        "standing on one side.",
        "State sides='random' if coins decided, or let `evenhand prepare` assign the sides and record the coins.",
    )
    return None


def _skips_void_the_coin(answers: Answers, skips: tuple[Ints, Ints, Floats], verdict: _Verdict) -> bool:
    """Skips that follow the side undo the coin: what remains is no longer random."""
    left, right, count = skips
    if count.sum() < MIN_SKIPS:
        return False
    figures = verdict.figures
    theta = _ridge_scores(answers, figures["items"], figures["annotators"])
    x = theta[left] - theta[right]
    norm = math.sqrt(float(count @ x**2))
    z = float(count @ x) / norm if norm > 0 else 0.0
    figures["skips_z"] = round(z, 4)
    if abs(z) <= Z_LIMIT:
        return False
    verdict.say(
        f"Skips depend on the side (z = {z:.2f} over {count.sum():.0f} skips), which undoes the coin.",
        "Ask annotators not to skip, or allow ties.",
    )
    return True


def _paper_if_separable(
    answers: Answers, data: AuditInput, assessable: NDArray[np.bool_], verdict: _Verdict, q: float, *, insist: bool
) -> str:
    figures = verdict.figures
    judged = _assessable(answers, data.sums, q, ridge=0.0)[0] if figures["items"] <= DENSE_ITEMS else assessable
    n_judged = int(judged.sum())
    try:
        require_rows(figures["answers"], n_judged or figures["annotators"], figures["items"])
        if not n_judged:
            verdict.say(
                "No annotator has enough answers left to be judged once item scores are fitted.",
                "Collect more answers per annotator, or let more annotators judge the same items.",
            )
            return "none"
        lowest = fixed_design(data.sums, np.flatnonzero(judged)).smallest_eigenvalue()
    except DesignError as error:
        if insist:
            raise
        verdict.say(str(error))
        return "none"
    except np.linalg.LinAlgError:
        lowest = 0.0
    figures["lambda_min"] = round(lowest, 6)
    if lowest < SEPARABLE:
        verdict.say(
            "Annotator biases cannot be told from item scores in this design (smallest eigenvalue of the projected "
            f"Gram matrix {lowest:.1e}).",
            "Show pairs in both orders, or let several annotators judge the same items on different sides.",
        )
        return "none"
    verdict.say(
        f"Item scores and biases are separable (smallest eigenvalue {lowest:.2f}), so annotators can be judged with "
        "the sides as they stood."
    )
    return "paper"


def _assessable(answers: Answers, sums: Sums, q: float, ridge: float | None = None) -> tuple[NDArray[np.bool_], Ints]:
    """Who has enough answers: three coins, a little of which theta may absorb.

    For the paper's construction (no ridge), as many that an exact sign-flip test could reach p <= q: theta absorbs more
    there, and what is left must carry a verdict alone.
    """
    n_annotators = len(sums.counts)
    solver = item_solver(sums.laplacian, ridge=ridge_for(answers) if ridge is None else ridge)
    left = information_left(sums, np.arange(n_annotators), solver)
    needed = 1.0 + math.log2(1.0 / q)  # 2^(1 - coins) <= q
    if ridge is None:
        needed = min(needed, FEWEST_COINS)
    effective = coins_per_annotator(answers, n_annotators) * left
    missing = np.maximum(needed - effective, 0.0)
    more = np.ceil(missing / np.clip(left, 0.1, 1.0) - 1e-9).astype(np.int64)
    return effective >= needed, more


def coins_per_annotator(answers: Answers, n_annotators: int) -> Floats:
    """Number of distinct coins that each annotator answered under."""
    return _distinct_partners(answers.annotator, answers.coin, n_annotators).astype(float)


def _distinct_partners(who: Ints, partner: Ints, n: int) -> Ints:
    """How many different partners each code met."""
    span = int(partner.max(initial=0)) + 1
    met = np.sort(who.astype(np.int64) * span + partner)  # sorted: np.unique would hash, slowly and in much memory
    first = np.ones(len(met), dtype=bool)
    first[1:] = met[1:] != met[:-1]
    return np.bincount(met[first] // span, minlength=n)


def _describe(answers: Answers, data: AuditInput) -> dict[str, Any]:
    sums = data.sums
    n_items, n_annotators = sums.pairs.shape[0], len(sums.counts)
    left = np.bincount(answers.left, answers.weight, minlength=n_items)
    right = np.bincount(answers.right, answers.weight, minlength=n_items)
    coin_codes, coin = np.unique(answers.coin, return_inverse=True)
    shown = np.concatenate([answers.left, answers.right])
    coins_of_item = _distinct_partners(shown, np.concatenate([coin, coin]), n_items)
    per_coin_annotators = _distinct_partners(coin, answers.annotator, len(coin_codes))
    one_sided = (left == 0) | (right == 0)
    doubt = float(np.maximum(coins_of_item[one_sided] - 1, 0).sum())
    used = sums.counts[sums.counts > 0]
    return {
        "answers": round(sums.n),
        "annotators": n_annotators,
        "items": n_items,
        "coins": len(coin_codes),
        "coin_source": data.coin_source,
        "shared_coins": bool((per_coin_annotators > 1).mean() > 0.01),
        "components": int(components_of(sums.laplacian).max(initial=-1) + 1),
        "left_share": round(float((answers.weight * (answers.outcome > 0)).sum() / sums.n), 4),
        "right_share": round(float((answers.weight * (answers.outcome < 0)).sum() / sums.n), 4),
        "one_orientation_pairs": _one_orientation_pairs(sums),
        "items_on_one_side": int(one_sided.sum()),
        "items_under_one_coin": round(float((coins_of_item <= 1).mean()), 4),
        "sides_never_swapped": bool(one_sided.all() and doubt >= 10),
        "answers_median": float(np.median(used)),
        "answers_90th_percentile": float(np.quantile(used, 0.9)),
        "excluded": dict(data.excluded),
        "skips": round(data.skips[2].sum()),
    }


def _one_orientation_pairs(sums: Sums) -> int:
    """Pairs seen at least twice, always in one orientation."""
    both = sums.pairs + sums.pairs.T
    swapped = sums.pairs.multiply(sums.pairs.T)
    repeated = (both > 1).astype(int)
    return int((repeated.sum() - repeated.multiply(swapped > 0).sum()) // 2)


def _ridge_scores(answers: Answers, n_items: int, n_annotators: int) -> Floats:
    if not len(answers):
        return np.zeros(n_items)
    sums = sum_answers(answers, n_items, n_annotators)
    return item_solver(sums.laplacian, ridge=ridge_for(answers)).solve(sums.Dy)


def _halves(unit: Ints) -> Ints:
    """Split units into two halves of equal size by a fixed shuffle of their codes."""
    codes, position = np.unique(unit, return_inverse=True)
    rank = np.argsort(np.argsort(mix(np.arange(len(codes)).astype(np.uint64))))
    return np.asarray((rank % 2)[position])
