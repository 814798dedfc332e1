"""What the data say about the sides, in a name and a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betainc, ndtri

from fdr_core.answers import Answers, Skipped, sum_answers
from fdr_core.audit.coins import OrdersShown, effective_coins
from fdr_core.audit.figures import AuditInput, describe
from fdr_core.audit.sides import (
    HARMLESS,
    LEVEL,
    OVERALL,
    OVERALL_SMALL_TEAM,
    SMALL_TEAM,
    Gaps,
    GroupTest,
    balance,
    balance_beyond_gaps,
    coin_gaps,
    drift,
    group_tests,
    groups_of_coins,
    level_of_each,
    skipped_sides,
)
from fdr_core.codes import compact_codes
from fdr_core.types import Ints, Mask

#: What was found in the data.
RANDOM, BOTH_ORDERS, ONE_ORDER, PLACED = "sides look random", "both orders", "one order per task", "placed"
UNKNOWN = "cannot be told"

#: Fewer skips than this of one person are not tested for a relation to the side.
MIN_SKIPS = 10

_PREPARE = "Assign sides by chance for the next tasks: `evenhand prepare` does it and records the coins."


@dataclass(frozen=True)
class SidesLook:
    """What was found, why, and what would help.

    Attributes
    ----------
    is_testable : not where most items occur under one coin only.
    is_explained : whether items stand where they stand because of how good they are, as far as can be told.
    """

    found: str
    reason: str
    remedy: str | None = None
    is_testable: bool = True
    is_explained: bool = True


def look_at_sides(answers: Answers, data: AuditInput, figures: dict[str, Any]) -> SidesLook:
    """Ask whether chance decided the sides; adds what it measured to ``figures``."""
    gaps = coin_gaps(answers, figures["items"], figures["annotators"])
    limit = _z_limit(data, figures)
    figures.update(
        sides_z=round(gaps.z, 4),
        sides_z_limit=limit,
        sides_z_coins=gaps.n_informative,
        sides_lean=round(gaps.lean, 4),
    )
    one_order = figures["shared_answers"] > 0.5
    if figures["items_under_one_coin"] > 0.5:
        test = None if data.item_class is None else balance("class of items", answers, gaps.use.coin, data.item_class)
        if test is not None:
            figures["sides_p_by_class_of_items"] = round(test.p_value, 6)
            if test.p_value < level_of_each(1, figures["coins"]):
                return SidesLook(PLACED, _by_group(test), _PREPARE)
        reason = "Most items occur under one coin only, so sides cannot be tested; the recorded coins are trusted."
        ask = (
            None
            if test
            else "Name a class of every item (--items FILE: item and class), such as who wrote it, to test sides by it."
        )
        return SidesLook(ONE_ORDER if one_order else UNKNOWN, reason, ask, is_testable=False)
    for objection in (*_objections(gaps, limit, data, figures), *_skips_object(figures)):
        return replace(objection, is_explained=_is_explained(gaps, data, figures))
    tasks = ", one order per task for everybody" if one_order else ""
    weak = "" if abs(gaps.z) <= limit else f" ({limit} is the limit, but so weak a lean does not matter at these sizes)"
    return SidesLook(
        ONE_ORDER if one_order else RANDOM,
        f"Sides look random: z = {gaps.z:.2f} over {gaps.n_informative} coins{weak}{tasks}.",
    )


def _z_limit(data: AuditInput, figures: dict[str, Any]) -> float:
    """Of all coins together: recorded ones are refused by the level of the other tests, since nothing takes over."""
    level = LEVEL
    if data.coin_source != "coin":
        level = OVERALL_SMALL_TEAM if figures["annotators"] < SMALL_TEAM else OVERALL
    return round(-float(ndtri(level_of_each(1, figures["coins"], level) / 2)), 2)


def _objections(gaps: Gaps, limit: float, data: AuditInput, figures: dict[str, Any]) -> Iterator[SidesLook]:
    """Leans of the design that are beyond chance and large enough to matter."""
    harmless = HARMLESS / math.sqrt(figures["answers_90th_percentile"])
    if abs(gaps.z) > limit and gaps.lean > harmless:
        yield SidesLook(
            PLACED,
            f"Sides do not look random: the better item stands {'left' if gaps.z > 0 else 'right'} too often "
            f"(z = {gaps.z:.2f}, limit {limit}).",
            _PREPARE,
        )
    tests = list(group_tests(gaps, data.stratum, data.time, data.item_class))
    level = level_of_each(len(tests), figures["coins"])
    figures["sides_p_limit"] = level
    for test in tests:
        figures[f"sides_p_by_{test.name.replace(' ', '_')}"] = round(test.p_value, 6)
        if test.p_value < level and test.lean > harmless:
            yield SidesLook(PLACED, _by_group(test), _PREPARE)


def _by_group(test: GroupTest) -> str:
    """Say which groups are not balanced."""
    if "item" in test.name:
        return (
            f"Sides do not look random {test.name} by {test.name}: some stand left too often and others right "
            f"(p = {test.p_value:.1g})."
        )
    return (
        f"Sides do not look random {test.name} by {test.name}: the better item stands left too often in some and right "
        f"too often in others (p = {test.p_value:.1g})."
    )


def _is_explained(gaps: Gaps, data: AuditInput, figures: dict[str, Any]) -> bool:
    """Whether items stand left as often as the gaps between them explain, by half at least: what else puts them there
    is not known. Not asked where one order serves everybody: few coins decided it, by whatever rule.
    """
    if figures["shared_answers"] > 0.5:
        return True
    level, use = level_of_each(1, figures["coins"]), gaps.use
    for within in (None, *groups_of_coins(gaps, data.stratum, data.time).values()):
        plain = balance("item", use.answers, use.coin, data.item_class, within=within)
        beyond = balance_beyond_gaps(gaps, data.item_class, within)
        figures["items_p_beyond_gaps"] = round(beyond.p_value, 6)
        if beyond.p_value < level and beyond.lean**2 > plain.lean**2 / 2:
            return False
    return True


def skips_by_side(answers: Answers, data: AuditInput, figures: dict[str, Any]) -> Mask:
    """(m,) whose skips go with the side of the better item; whether most people's do is noted in ``figures``."""
    m = figures["annotators"]
    if not len(data.skips.count):
        return np.zeros(m, dtype=bool)
    found = skipped_sides(answers, data.skips, figures["items"], m)
    is_tested = found.n >= MIN_SKIPS
    level = level_of_each(int(is_tested.sum()) + 1, figures["coins"])
    is_found = is_tested & (found.p_value < level)
    votes = found.majority[:m][found.majority[:m] != 0]  # one each: nobody can take the proof from the others alone
    few = min((votes > 0).sum(), (votes < 0).sum())
    of_all = min(1.0, 2 * float(betainc(len(votes) - few, few + 1, 0.5)))  # the binomial distribution's tail
    figures["skips_by_side"] = int(is_found[:m].sum())
    figures["skips_undo_the_coin"] = bool(is_found[m] or of_all < level)
    return np.asarray(is_found[:m])


def _skips_object(figures: dict[str, Any]) -> Iterator[SidesLook]:
    """Skips that follow the side undo the coin: what remains is no longer random."""
    if figures.get("skips_undo_the_coin"):
        yield SidesLook(
            PLACED,
            f"Skips depend on the side ({figures['skips']} skips, by many people or by people who are not known), "
            "which undoes the coin.",
            "Ask annotators not to skip, or allow ties.",
        )


def look_at_orders(answers: Answers, data: AuditInput, orders: OrdersShown, figures: dict[str, Any]) -> str:
    """Why nobody can be judged by both orders; "" where nothing speaks against it.

    Did chance decide which order came first, and do choices drift from the first to the second?

    People who answer one order after the other may change their mind in between; where the first order is the same for
    everybody, that looks like a lean.
    """
    passes = _Passes.of(answers, data, orders)
    if passes is None:
        return ""
    coin, first = passes.coin, passes.first
    is_recorded = data.coin_source == "coin"
    if not is_recorded:
        coin = effective_coins(first, "own")
    shown = first.with_coin(coin)
    own = replace(data, answers=shown, sums=sum_answers(shown, figures["items"], figures["annotators"]))
    own = replace(own, skips=Skipped.of({}), stratum=None, time=None, shown_at=None)
    seen = describe(shown, own, 0.0)
    look = look_at_sides(shown, own, seen)
    figures.update({name: seen[name] for name in seen if name.startswith("sides_p_by_")})
    if look.found == PLACED:
        return f"chance did not decide which of both orders came first. {look.reason}"
    if not is_recorded and not look.is_testable and seen["coins"] < len(shown):
        return "one of both orders came first for everybody, so a change of mind looks like a lean."
    tests = list(drift(first.annotator[passes.changed], passes.chosen, coin[passes.changed], data.item_class))
    for test in tests:
        figures[f"sides_p_by_{test.name.replace(' ', '_')}"] = round(test.p_value, 6)
        if test.p_value < level_of_each(len(tests), seen["coins"]) and seen["shared_answers"] > 0:
            return (
                f"answers to the second order of a pair drift from those to the first (p = {test.p_value:.1g}), and "
                "one coin decided for several people which came first."
            )
    return ""


@dataclass(frozen=True)
class _Passes:
    """Pairs seen in both orders at different times: as first shown, the items chosen then and later, and coins.

    ``changed`` : positions of those answered inconsistently; ``chosen`` : of these, the item chosen first and second.
    """

    first: Answers
    coin: Ints
    changed: Ints
    chosen: tuple[Ints, Ints]

    @classmethod
    def of(cls, answers: Answers, data: AuditInput, orders: OrdersShown) -> _Passes | None:
        """None where it is not known which order came first."""
        if data.shown_at is None:
            return None
        time, unit = data.shown_at(), orders.unit
        forward = answers.left < answers.right
        n, told = int(unit.max(initial=-1)) + 1, orders.is_swapped & ~np.isnan(time)
        at = np.full((2, n), np.inf)
        place = np.zeros((2, n), dtype=np.int64)
        for way in (0, 1):
            rows = np.flatnonzero(told & (forward == way))[::-1]
            np.minimum.at(at[way], unit[rows], time[rows])
            rows = rows[time[rows] == at[way][unit[rows]]]
            place[way][unit[rows]] = rows
        known = np.flatnonzero(np.isfinite(at).all(axis=0) & (at[0] != at[1]))
        if not len(known):
            return None
        is_forward = (at[1] < at[0])[known]
        one, two = (np.where(is_forward == way, place[1, known], place[0, known]) for way in (True, False))
        chosen = [np.where(answers.outcome[rows] > 0, answers.left[rows], answers.right[rows]) for rows in (one, two)]
        is_told = (answers.outcome[one] != 0) & (answers.outcome[two] != 0)
        changed = np.flatnonzero(is_told & (chosen[0] != chosen[1]))
        first = replace(answers.take(one), weight=np.ones(len(one)))
        coin = compact_codes(data.answers.coin[one] if data.coin_source == "coin" else unit[one])
        return cls(first.with_coin(coin), coin, changed, (chosen[0][changed], chosen[1][changed]))
