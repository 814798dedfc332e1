"""From the figures of a design to how it can be judged, with the reason and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fdr_core import least_evidence
from fdr_core.answers import Answers
from fdr_core.audit.coins import OrdersShown, Presentations, effective_coins, orders_shown
from fdr_core.audit.figures import (
    FEW_COINS,
    AuditInput,
    Enough,
    describe,
    enough_beside_items,
    enough_coins,
    enough_pairs,
)
from fdr_core.audit.look import (
    BOTH_ORDERS,
    PLACED,
    UNKNOWN,
    SidesLook,
    look_at_orders,
    look_at_sides,
    skips_by_side,
)
from fdr_core.design import DENSE_ITEMS
from fdr_core.errors import ConfigurationError, DesignError
from fdr_core.inputs.likely_coin import ROW_ORDER
from fdr_core.projection import fixed_design, require_rows
from fdr_core.types import Ints, Mask

SIDES = ("audit", "random", "not random")
METHODS = ("auto", "flip", "paper")

#: With fewer coins than this in all, chance cannot be told from placement.
FEWEST_SHARED_COINS = 20
#: Fewer annotators than this have no median that a lean could be held against.
FEWEST_TO_COMPARE = 10
#: As many classes of items are named; more are not.
_NAMED = 8
#: Below this smallest eigenvalue of Sigma biases and item scores are not separable.
SEPARABLE = 1e-3


@dataclass(frozen=True)
class Audit:
    """The decision, with its reasons, what would help, and the figures behind it.

    Attributes
    ----------
    found : what the data show: "sides look random", "both orders" (of a pair, to the same annotator), "one order per
        task" (for everybody), "placed" (sides do not look random) or "cannot be told".
    how : how one annotator is tested: "own coins", "shared coins", "both orders", "sides fixed" or "none".
    construction : of knockoffs: "flip" (coins flipped anew), "paper" (sides held fixed, as in the paper) or "none".
    assessable : (m,) whether each annotator has enough answers for a test.
    assessable_by_lbi : (m,) whether each has enough for knockoff LBI.
    more_needed : (m,) about how many more answers each would need.
    coin : (rows,) the coin of every row of answers as it is used.
    few_coins : (m,) whose answers stand under too few coins for a test by them; a model of judging tests them.
    skips_by_side : (m,) whose skips go with the side, so that no coin decided what remains of their answers.
    """

    found: str
    how: str
    construction: str
    reasons: list[str]
    remedies: list[str]
    figures: Mapping[str, Any]
    assessable: Mask = field(repr=False)
    assessable_by_lbi: Mask = field(repr=False)
    more_needed: Ints = field(repr=False)
    coin: Ints = field(repr=False)
    few_coins: Mask = field(repr=False)
    skips_by_side: Mask = field(repr=False)

    @property
    def shares_coins(self) -> bool:
        """Whether one coin decided the side for several annotators."""
        return bool(self.figures["shared_coins"])

    @property
    def is_refusal(self) -> bool:
        """Whether nobody can be judged, however many answers there were."""
        return self.how == "none" and bool(self.assessable.any())

    def as_dict(self) -> dict[str, Any]:
        """What is stored and reported of the audit; who can be judged stands in the table of annotators."""
        names = ("found", "how", "construction", "reasons", "remedies", "figures")
        return {name: getattr(self, name) for name in names}


def audit(data: AuditInput, *, q: float, method: str = "auto", sides: str = "audit") -> Audit:
    """Decide how annotators can be judged: by their coins, by both orders, with sides held fixed, or not at all.

    Raises
    ------
    ConfigurationError
        For unknown options, or ``method="flip"`` where the owner says that sides were not random.
    DesignError
        For ``method="paper"`` on a design that has too few answers for it.
    """
    _check_options(method, sides)
    case = _Case.of(data, q, sides)
    case.mention_the_design()
    ending = _settle_construction(case, _find(case), method)
    enough = by_lbi = case.enough
    if ending.construction == "paper":
        by_lbi = enough_beside_items(case.answers, data.sums, q)
    few_coins = case.few_coins & (ending.how in ("own coins", "shared coins"))
    if ending.how == "sides fixed":
        enough = by_lbi.or_so(case.few_coins)
    elif few_coins.any():
        enough = enough.or_so(few_coins)
        n_few = int(few_coins.sum())
        case.say(
            f"The answers of {n_few:,} {'person' if n_few == 1 else 'people'} stand under fewer than "
            f"{least_evidence.UNITS} coins: a model of judging tests them, by how much more they lean than the others."
        )
    case.figures["assessable"] = int(enough.is_so.sum())
    return Audit(
        ending.found,
        ending.how,
        ending.construction,
        case.reasons,
        case.remedies,
        case.figures,
        enough.is_so,
        by_lbi.is_so & ~case.skips_by_side if ending.construction == "flip" else by_lbi.is_so,
        enough.more_needed,
        case.answers.coin,
        few_coins,
        case.skips_by_side,
    )


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


@dataclass(frozen=True)
class _Ending:
    """What was found, how annotators are tested, and how knockoffs are made."""

    found: str
    how: str
    construction: str = "none"
    is_final: bool = False


@dataclass
class _Case:
    """A design under audit, with what was said about it so far."""

    data: AuditInput
    answers: Answers
    orders: OrdersShown
    figures: dict[str, Any]
    q: float
    sides: str
    enough: Enough
    skips_by_side: Mask
    reasons: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, data: AuditInput, q: float, sides: str) -> _Case:
        """Settle the coins, describe the design and ask who has enough answers."""
        shown = Presentations.of(data.answers)
        answers = data.answers.with_coin(effective_coins(data.answers, data.coin_source, shown))
        orders = orders_shown(answers, data.coin_source, data.stratum, shown)
        if orders.are_both and orders.on_purpose:
            answers = answers.with_coin(orders.joined(answers.coin))
        figures = describe(answers, data, orders.share)
        enough = enough_coins(answers, figures["annotators"])
        return cls(data, answers, orders, figures, q, sides, enough, skips_by_side(answers, data, figures))

    def say(self, reason: str, remedy: str | None = None) -> None:
        """Give a reason, and what would help."""
        if reason:
            self.reasons.append(reason)
        if remedy:
            self.remedies.append(remedy)

    def mention_the_design(self) -> None:
        """Say what deserves a word whatever the decision."""
        figures = self.figures
        if self.data.coin_source == "guessed":
            column = self.data.coin_column or "one of the columns"
            self.say(
                f"No coin is recorded. What agrees in {column} stands in one order far more often than by chance, so "
                f"answers that do are counted together; intervals are as wide as that asks for, and nothing is proven.",
                f"If {column} decided the sides, say so with --map coin={column}; else record the coin."
                if column != ROW_ORDER
                else "Record the coin that decides each order, or the question that was asked.",
            )
        if 1 < len(self.data.class_names) <= _NAMED:
            names = ", ".join(self.data.class_names)
            self.say(f"Items are also tested by class; these were told apart: {names}.")
        if n_skippers := int(self.skips_by_side.sum()):
            self.say(
                f"Skips of {n_skippers} {'person' if n_skippers == 1 else 'people'} go with the side: all their "
                "answers leave the tests by coins for one by a model of judging; everybody else is tested as before.",
                "Ask them why they skip, or allow ties.",
            )
        if figures["components"] > 1:
            self.say(
                f"The items fall into {figures['components']} groups never compared with each other; each is ranked "
                "on its own."
            )
        if figures["few_coins"]:
            self.say(
                f"Only {figures['coins']} distinct coins decided the sides for everybody; with fewer than {FEW_COINS} "
                "an unlucky set of sides can touch many annotators at once.",
                "Assign sides anew for more tasks before acting on a flag.",
            )

    @cached_property
    def few_coins(self) -> Mask:
        """(m,) who met too few coins, but compared pairs enough, in a crowd that has a median."""
        m = self.figures["annotators"]
        if m < FEWEST_TO_COMPARE:
            return np.zeros(m, dtype=bool)
        return ~self.enough.is_so & enough_pairs(self.answers, m)

    @property
    def by_coins(self) -> str:
        """How annotators are tested where coins decided."""
        return "shared coins" if self.figures["shared_coins"] else "own coins"


def _find(case: _Case) -> _Ending:
    """Say what was found in the data and how annotators can be tested, whatever knockoffs were asked for."""
    if not case.enough.is_so.any():
        if case.few_coins.any():
            return _few_coins_each(case)
        case.say("No annotator has enough answers to be judged yet.", "Collect more answers per annotator.")
        return _Ending(UNKNOWN, "none", is_final=True)
    if case.orders.are_both and case.orders.on_purpose:
        return _both_orders(case)
    if case.figures["sides_never_swapped"]:
        return _never_swapped(case)
    if case.figures["shared_coins"] and case.figures["coins"] < FEWEST_SHARED_COINS and case.sides == "audit":
        return _too_few_coins(case)
    look = look_at_sides(case.answers, case.data, case.figures)
    if case.sides != "audit":
        return _owner_decides(case, look)
    if look.found == PLACED:
        case.say(look.reason, look.remedy)
        if case.data.coin_source == "coin":
            return _coins_contradicted(case)
        if not look.is_explained and not case.orders.are_both:
            return _items_unexplained(case)
        return _both_orders(case) if case.orders.are_both else _Ending(PLACED, "sides fixed")
    if not look.is_testable and case.data.coin_source != "coin":
        case.say(
            "Cannot be judged: most items occur under one coin only, so a leaning crowd cannot be told from better "
            "items standing on one side.",
            "State sides='random' if coins decided, or let `evenhand prepare` assign the sides and record the coins.",
        )
        return _Ending(look.found, "none")
    case.say(look.reason, look.remedy)
    return _Ending(look.found, case.by_coins)


def _items_unexplained(case: _Case) -> _Ending:
    """Judge nobody: whoever likes what stands left seems to lean left."""
    case.say(
        "Cannot be judged: some items stand left more often than their scores explain, and people who like them cannot "
        "be told from people who lean.",
    )
    return _Ending(PLACED, "none")


def _coins_contradicted(case: _Case) -> _Ending:
    """Judge nobody: another test, chosen because of how the coins fell, would know the sides."""
    case.say(
        "Cannot be judged: the recorded coins do not look fair, and a test chosen for that reason would prove nothing.",
        "Look for what moved items or answers to one side. If no coin decided, state sides='not random'.",
    )
    return _Ending(PLACED, "none")


def _never_swapped(case: _Case) -> _Ending:
    prepare = "Assign sides by chance: `evenhand prepare` writes tasks with recorded coin flips."
    fixed = (
        "Sides were never swapped: every item always stood on the same side, so a preference for a side cannot be told "
    )
    is_recorded = case.data.coin_source == "coin"  # and would be overruled by another test
    if is_recorded or case.figures["annotators"] < FEWEST_TO_COMPARE:
        case.say(f"{fixed}from a preference for the items there.", prepare)
        return _Ending(PLACED, "none", is_final=True)
    case.say(
        f"{fixed}from a preference that everybody has for the items there; what can be told is who leans more than the "
        "others.",
        prepare,
    )
    return _Ending(PLACED, "sides fixed", is_final=True)


def _few_coins_each(case: _Case) -> _Ending:
    case.say(
        f"Fewer than {least_evidence.UNITS} coins decided the sides of anybody's answers; what can be told is who "
        "leans more than the others.",
        "Flip a coin for every comparison: `evenhand prepare` does it and records the coins.",
    )
    return _Ending(UNKNOWN, "sides fixed", is_final=True)


def _too_few_coins(case: _Case) -> _Ending:
    n_coins = case.figures["coins"]
    n_tasks = len(np.unique(case.data.answers.coin)) if case.data.coin_source == "task" else n_coins
    placed = f"; in {n_tasks} tasks a pair always stands in the same order" if n_tasks > n_coins else ""
    case.say(
        f"Cannot be judged: only {n_coins} coins decided the sides for everybody{placed}, too few to tell chance from "
        "placement.",
        "Let `evenhand prepare` assign the sides of more tasks by chance, or show pairs in both orders.",
    )
    return _Ending(PLACED if placed else UNKNOWN, "none")


def _both_orders(case: _Case) -> _Ending:
    case.answers = case.answers.with_coin(case.orders.joined(case.answers.coin))
    case.figures.update(describe(case.answers, case.data, case.orders.share))
    case.say(
        f"Both orders were shown: {100 * case.orders.share:.0f} % of the answers belong to pairs that the same "
        "annotator saw either way round, so its two choices can be compared."
    )
    objection = look_at_orders(case.answers, case.data, case.orders, case.figures)
    if case.sides == "random":
        case.figures["stated_random"] = True
        case.say("The owner states that chance decided which order came first, or that judges have no memory of it.")
        case.say(f"The data speak against it; please check: {objection}" if objection else "")
    elif objection:
        case.say(
            f"Cannot be judged: {objection}",
            "Let `evenhand prepare --both-orders` draw the first order, or state sides='random' for judges without "
            "memory.",
        )
        return _Ending(BOTH_ORDERS, "none")
    return _Ending(BOTH_ORDERS, "both orders")


def _owner_decides(case: _Case, look: SidesLook) -> _Ending:
    """Follow the owner's word on the sides, and say where the data speak against it."""
    if case.sides == "not random":
        case.say("The owner states that sides were not assigned by chance.")
        return _both_orders(case) if case.orders.are_both else _Ending(look.found, "sides fixed")
    case.figures["stated_random"] = True
    case.say("The owner states that coins decided the sides.")
    if look.found == PLACED:
        case.say(f"The data speak against it; please check. {look.reason}")
    return _Ending(look.found, case.by_coins)


def _settle_construction(case: _Case, ending: _Ending, method: str) -> _Ending:
    """Choose how knockoffs are made: as asked for, else as the sides allow."""
    if method == "paper":
        figures = case.figures
        require_rows(figures["answers"], int(case.enough.is_so.sum()) or figures["annotators"], figures["items"])
    if ending.is_final:
        return ending
    if method == "flip" and ending.how in ("sides fixed", "none"):
        case.say(
            "Coin flips were asked for explicitly; with sides that were not random their error rate is not controlled."
        )
        case.figures["forced"] = True
        return replace(ending, construction="flip")
    if method == "paper" or ending.how == "sides fixed":
        construction = _paper_if_separable(case, insist=method == "paper")
        return replace(ending, how="none" if construction == "none" else ending.how, construction=construction)
    return replace(ending, construction="none" if ending.how == "none" else "flip")


def _paper_if_separable(case: _Case, *, insist: bool) -> str:
    """ "paper" where biases can be told from item scores with the sides as they stood, else "none"."""
    figures = case.figures
    is_small = figures["items"] <= DENSE_ITEMS
    enough = enough_beside_items(case.answers, case.data.sums, case.q) if is_small else case.enough
    judged = enough.is_so
    n_judged = int(judged.sum())
    try:
        require_rows(figures["answers"], n_judged or figures["annotators"], figures["items"])
        if not n_judged:
            case.say(
                "No annotator has enough answers left to be judged once item scores are fitted.",
                "Collect more answers per annotator, or let more annotators judge the same items.",
            )
            return "none"
        lowest = fixed_design(case.data.sums, np.flatnonzero(judged)).smallest_eigenvalue()
    except DesignError as error:
        if insist:
            raise
        case.say(str(error), "Collect more answers, or show pairs in both orders.")
        return "none"
    except np.linalg.LinAlgError:
        lowest = 0.0
    figures["lambda_min"] = round(lowest, 6)
    if lowest < SEPARABLE:
        case.say(
            "Annotator biases cannot be told from item scores in this design (smallest eigenvalue of the projected "
            f"Gram matrix {lowest:.1e}).",
            "Show pairs in both orders, or let several annotators judge the same items on different sides.",
        )
        return "none"
    case.say(
        f"Item scores and biases are separable (smallest eigenvalue {lowest:.2f}), so annotators can be judged with "
        "the sides as they stood."
    )
    return "paper"
