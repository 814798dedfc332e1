"""What the data say about the sides, in a name and a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scipy.stats import norm

from fdr_core.answers import Answers
from fdr_core.audit.figures import AuditInput
from fdr_core.audit.sides import (
    HARMLESS,
    SMALL_TEAM,
    Z_LIMIT,
    Z_LIMIT_SMALL_TEAM,
    Gaps,
    GroupTest,
    balance,
    coin_gaps,
    group_tests,
    level_of_each,
    skips_z,
)

#: What was found in the data.
RANDOM, BOTH_ORDERS, ONE_ORDER, PLACED = "sides look random", "both orders", "one order per task", "placed"
UNKNOWN = "cannot be told"

#: Fewer skips than this cannot be tested for a relation to the side.
MIN_SKIPS = 20

_PREPARE = "Assign sides by chance for the next tasks: `evenhand prepare` does it and records the coins."


@dataclass(frozen=True)
class SidesLook:
    """What was found, why, and what would help; not testable where most items occur under one coin only."""

    found: str
    reason: str
    remedy: str | None = None
    is_testable: bool = True


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
        return SidesLook(ONE_ORDER if one_order else UNKNOWN, reason, is_testable=False)
    for objection in (*_objections(gaps, limit, data, figures), *_skips_object(answers, data, figures)):
        return objection
    tasks = ", one order per task for everybody" if one_order else ""
    weak = "" if abs(gaps.z) <= limit else f" ({limit} is the limit, but so weak a lean does not matter at these sizes)"
    return SidesLook(
        ONE_ORDER if one_order else RANDOM,
        f"Sides look random: z = {gaps.z:.2f} over {gaps.n_informative} coins{weak}{tasks}.",
    )


def _z_limit(data: AuditInput, figures: dict[str, Any]) -> float:
    """Of all coins together: recorded ones are refused by the level of the other tests, since nothing takes over."""
    if data.coin_source == "coin":
        return round(float(norm.isf(level_of_each(1, figures["coins"]) / 2)), 2)
    return Z_LIMIT_SMALL_TEAM if figures["annotators"] < SMALL_TEAM else Z_LIMIT


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
    if test.name in ("item", "class of items"):
        return (
            f"Sides do not look random {test.name} by {test.name}: some stand left too often and others right "
            f"(p = {test.p_value:.1g})."
        )
    return (
        f"Sides do not look random {test.name} by {test.name}: the better item stands left too often in some and right "
        f"too often in others (p = {test.p_value:.1g})."
    )


def _skips_object(answers: Answers, data: AuditInput, figures: dict[str, Any]) -> Iterator[SidesLook]:
    """Skips that follow the side undo the coin: what remains is no longer random."""
    n_skips = float(data.skips[2].sum())
    if n_skips < MIN_SKIPS:
        return
    z = skips_z(answers, data.skips, figures["items"])
    figures["skips_z"] = round(z, 4)
    if abs(z) > Z_LIMIT:
        yield SidesLook(
            PLACED,
            f"Skips depend on the side (z = {z:.2f} over {n_skips:.0f} skips), which undoes the coin.",
            "Ask annotators not to skip, or allow ties.",
        )
