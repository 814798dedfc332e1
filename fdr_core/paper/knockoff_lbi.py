"""Knockoff LBI, the paper's method, as one object: what can be chosen about it, checked, and how it is run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fdr_core.errors import ConfigurationError
from fdr_core.option import check_options, option, options_of

if TYPE_CHECKING:
    from fdr_core.answers import Answers, Sums
    from fdr_core.comparisons import Comparisons
    from fdr_core.paper.draws import Progress
    from fdr_core.paper.run import LbiResult
    from fdr_core.statistics import SufficientStatistics
    from fdr_core.types import Ints, Mask

#: What is written where LBI is left out.
OFF = "off"


@dataclass(frozen=True)
class KnockoffLBI:
    """The paper's method: copies of every annotator, a race between them on a path, again and again.

        detect(answers, lbi=KnockoffLBI(draws=50, path="iss"))
        KnockoffLBI(construction="paper", draws=1).fit(answers, q=0.1).flagged

    Every field with its choices and bounds: docs/options.md.

    Raises
    ------
    ConfigurationError
        For values out of range, and values that do not go together.

    References
    ----------
    Xu, Xiong, Cao, Yao (2016), False discovery rate control and statistical quality assessment of annotators in
    crowdsourced ranking.
    """

    draws: int = option(
        21, "Draws", "Independent draws; it selects whom most draws select.", is_whole=True, low=1, high=10_000
    )
    path: str = option(
        "lbi",
        "Path",
        "How annotators and copies enter the model. On most designs all four select the same annotators.",
        {
            "lbi": "linearised Bregman iterations",
            "iss": "inverse scale space",
            "lasso": "LASSO",
            "marginal": "marginal: fastest",
        },
    )
    cut: str = option(
        "knockoff+",
        "Selection rule of a draw",
        "knockoff+ aims at the share of false flags itself; knockoff only at a modified rate, and selects more.",
        {"knockoff+": "knockoff+: the rate itself", "knockoff": "knockoff: a modified rate"},
    )
    construction: str = option(
        "auto",
        "Construction of the copies",
        "How copies are made. Leave it to the audit unless you are reproducing a study.",
        {"auto": "as the audit decides", "flip": "coin flips", "paper": "the paper's fixed design"},
    )
    copies: int | None = option(
        None,
        "Copies",
        "Copies per annotator. Empty: 1/q below 500 annotators, else 5. More copies allow shorter lists.",
        is_whole=True,
        low=1,
        high=100,
        may_be_empty=True,
    )
    aggregate: str = option(
        "majority",
        "How draws are combined",
        "The majority of draws is checked by simulation; e-values have a proof and select fewer.",
        {"majority": "majority of draws", "evalues": "e-values"},
    )
    slack: str = option(
        "auto",
        "Slack of the paper's construction",
        "How far copies stand from their annotators. The semidefinite program leaves some annotators no slack.",
        {"auto": "maximum entropy", "sdp": "the paper's semidefinite program", "cvxpy": "the same by cvxpy"},
    )
    complement: str = option(
        "random",
        "Noise of the paper's construction",
        "Where the copies' noise comes from. The package of the paper's time took it, nearly, from the answers of the "
        "second and third annotator; the printed tables rest on that.",
        {"random": "uniformly random", "householder": "Householder reflections, as in the paper's tables"},
    )
    variance: str | None = option(
        None,
        "Variance of the paper's construction",
        "Pools everybody's noise, or not that of outliers. Empty: plain if the paper's construction is named, else "
        "two-pass.",
        {"plain": "as in the paper", "two-pass": "in two passes"},
        may_be_empty=True,
    )
    seconds: float | None = option(
        60.0,
        "Time",
        "Seconds that all draws together may take; at least one is made; their number is reported. Empty: no limit.",
        low=0.1,
        high=86_400,
        may_be_empty=True,
    )
    seed: int = option(0, "Seed", "Seed of the draws.", is_whole=True, low=0)
    judge: str = option(
        "assessable",
        "Who is judged",
        "Only those with enough answers, or everybody however few they gave, as the paper did; the latter only with "
        "the paper's construction.",
        {"assessable": "those with enough answers", "everybody": "everybody, as in the paper"},
    )

    def __post_init__(self) -> None:
        """Check."""
        check_options(self)
        if self.construction == "paper" and (self.copies or 1) > 1:
            raise ConfigurationError(
                f"copies was {self.copies}, but the paper's construction (construction='paper') has one copy per "
                "annotator; leave copies out, or use construction='flip'"
            )
        if self.complement == "householder" and (self.construction != "paper" or self.draws > 1):
            raise ConfigurationError(
                f"complement='householder' was given with construction={self.construction!r} and draws={self.draws}; "
                "expected construction='paper' and draws=1: it leaves nothing to chance, so every draw is the same"
            )
        if self.judge == "everybody" and self.construction != "paper":
            raise ConfigurationError(
                f"judge='everybody' was given with construction={self.construction!r}; expected construction='paper', "
                "whose study it reproduces; leave judge out otherwise"
            )

    @classmethod
    def parse(cls, text: str) -> KnockoffLBI | None:
        """Read ``draws=50,path=iss``; nothing stands for the defaults, "off" for None: LBI is left out.

        Raises
        ------
        ConfigurationError
        """
        if text.strip().lower() == OFF:
            return None
        known = {one.name: one for one in options_of(cls)}
        values: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = (piece.strip() for piece in part.partition("="))
            if name not in known or "=" not in part:
                raise ConfigurationError(
                    f"lbi has {part!r}; expected {OFF}, or names with values such as draws=50,path=iss; "
                    f"known: {', '.join(known)}"
                )
            values[name] = known[name].read(value)
        return cls(**values)

    @property
    def text(self) -> str:
        """What differs from the defaults, as `parse` reads it."""
        return _written({one.name: getattr(self, one.name) for one in options_of(self) if not one.is_default_of(self)})

    @property
    def text_in_full(self) -> str:
        """Every field, as `parse` reads it: what is kept with a result."""
        return _written({one.name: getattr(self, one.name) for one in options_of(self)})

    @property
    def variance_used(self) -> str:
        """Which pooled variance the paper's construction uses."""
        return self.variance or ("plain" if self.construction == "paper" else "two-pass")

    @property
    def budget(self) -> float:
        """Seconds that there are."""
        return math.inf if self.seconds is None else self.seconds

    def fit(
        self,
        data: Comparisons | SufficientStatistics,
        *,
        q: float = 0.1,
        sides: str = "audit",
        clock: Callable[[], float] | None = None,
    ) -> LbiResult:
        """Run on data, without the exact tests beside it."""
        from fdr_core.paper.run import fit

        return fit(self, data, q=q, sides=sides, clock=clock)

    def run(
        self,
        *,
        answers: Answers,
        sums: Sums,
        construction: str,
        judged: Ints,
        q: float = 0.1,
        of_interest: Mask | None = None,
        clock: Callable[[], float] | None = None,
        progress: Progress | None = None,
    ) -> LbiResult:
        """Run where the audit has decided.

        Parameters
        ----------
        answers : all answers, with the coins as the audit uses them.
        sums : their sums.
        construction : "flip" (coins flipped anew), "paper" (fixed design) or "none", as the audit decided.
        judged : codes of the annotators that take part; the answers of the others still inform theta.
        of_interest : (judged,) whose bias is large enough for a flag, see `Rule`; everybody's by default.
        clock : returns seconds; without one the budget has no effect. What a draw says does not depend on the budget,
            but how many fit does: give none where two calls must agree.
        progress : called with (draws done, draws asked).

        Raises
        ------
        DesignError
            For the paper's construction on a design that does not allow it.
        """
        from fdr_core.paper.run import run

        return run(self, answers, sums, construction, judged, q, of_interest, clock, progress)


def _written(values: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={'none' if value is None else value}" for name, value in values.items())


def text_of(lbi: KnockoffLBI | None) -> str:
    """What `KnockoffLBI.parse` reads back."""
    return OFF if lbi is None else lbi.text
