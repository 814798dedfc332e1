"""The options of `detect`, declared once: names, defaults, bounds, choices and words.

`detect` checks its arguments here; command line, project settings, the settings form and docs/options.md are made from
`OPTIONS`. Nothing heavy is imported, so that a web server can read the table without loading the numerics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

from fdr_core._version import __version__
from fdr_core.errors import ConfigurationError

_NO_CHOICES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Option:
    """One option of `detect`.

    Attributes
    ----------
    name : as `detect` calls it.
    default : what holds when nothing is said.
    title, words : a short name for forms, and what the option does.
    choices : the values it may take, each with words; empty for numbers.
    is_whole : whether a number has to be whole.
    low, high : bounds of a number; ``excludes_bounds`` where it has to lie strictly between them.
    may_be_empty : whether None is allowed: then the library chooses.
    is_expert : only of interest to those who reproduce a study or tune LBI.
    is_per_project : whether a project of the service can set it.
    """

    name: str
    default: Any
    title: str
    words: str
    choices: Mapping[str, str] = field(default_factory=lambda: _NO_CHOICES)
    is_whole: bool = False
    low: float = -math.inf
    high: float = math.inf
    excludes_bounds: bool = False
    may_be_empty: bool = False
    is_expert: bool = False
    is_per_project: bool = True

    @property
    def expected(self) -> str:
        """What the option takes, in words."""
        if self.choices:
            taken = f"one of {', '.join(self.choices)}"
        elif self.excludes_bounds:
            taken = f"a number between {self.low:g} and {self.high:g}, such as {self.default:g}"
        else:
            kind = "a whole number" if self.is_whole else "a number"
            taken = f"{kind} from {self.low:g}" + (f" to {self.high:g}" if self.high < math.inf else "")
        return f"nothing, or {taken}" if self.may_be_empty else taken

    def fits(self, value: Any) -> bool:
        """Whether a value may be given."""
        if value is None:
            return self.may_be_empty
        if self.choices:
            return isinstance(value, str) and value in self.choices
        if isinstance(value, bool) or not isinstance(value, Integral if self.is_whole else Real):
            return False
        number = float(value)
        return self.low < number < self.high if self.excludes_bounds else self.low <= number <= self.high

    def check(self, value: Any) -> None:
        """Refuse a value outside the range, naming the option.

        Raises
        ------
        ConfigurationError
        """
        if not self.fits(value):
            raise ConfigurationError(f"{self.name} was {value!r}; expected {self.expected}")


OPTIONS: tuple[Option, ...] = (
    Option(
        "q",
        0.1,
        "Target error rate q",
        "At most this share of the flags is wrong, on average over many lists. Smaller: fewer, surer flags.",
        low=0,
        high=1,
        excludes_bounds=True,
    ),
    Option(
        "min_bias",
        0.1,
        "Smallest lean worth a flag",
        "A certain but tiny lean is of no interest: leans below this are never flagged.",
        low=0,
        high=1,
    ),
    Option(
        "sides",
        "audit",
        "Sides",
        "Were the sides assigned by chance? State it only if you know; if it is not true, flags will be wrong.",
        {
            "audit": "let the audit test it",
            "random": "I state that coins decided the sides",
            "not random": "I state that sides were not assigned by chance",
        },
    ),
    Option(
        "decide_by",
        "exact",
        "Who is flagged",
        "The exact test of each annotator decides, or knockoff LBI, the paper's method. Both are shown either way; "
        "naming a construction means that LBI decides with it.",
        {"exact": "by the exact test of each annotator", "lbi": "by knockoff LBI"},
    ),
    Option(
        "consensus",
        "logistic",
        "Ranking of the items",
        "How item scores are fitted: log odds with a slope per annotator, or the paper's least squares.",
        {"logistic": "logistic (Bradley-Terry)", "least squares": "the paper's least squares"},
    ),
    Option(
        "draws",
        21,
        "Draws of knockoff LBI",
        "Independent draws of knockoff LBI; it selects whom most draws select. 0 switches LBI off.",
        is_whole=True,
        low=0,
        high=10_000,
    ),
    Option(
        "method",
        "auto",
        "Construction of the copies",
        "How knockoff LBI makes its copies. Leave it to the audit unless you are reproducing a study.",
        {"auto": "as the audit decides", "flip": "coin flips", "paper": "the paper's fixed design"},
        is_expert=True,
    ),
    Option(
        "judge",
        "assessable",
        "Who is judged",
        "Only those with enough answers, or everybody however few they gave, as the paper did; the latter only with "
        "the paper's construction.",
        {"assessable": "those with enough answers", "everybody": "everybody, as in the paper"},
        is_expert=True,
        is_per_project=False,
    ),
    Option(
        "path",
        "lbi",
        "Path",
        "How annotators and copies enter the model. On most designs all four select the same annotators.",
        {
            "lbi": "linearised Bregman iterations",
            "iss": "inverse scale space",
            "lasso": "LASSO",
            "marginal": "marginal: fastest",
        },
        is_expert=True,
    ),
    Option(
        "cut",
        "knockoff+",
        "Selection rule of a draw",
        "knockoff+ aims at the share of false flags itself; knockoff only at a modified rate, and selects more.",
        {"knockoff+": "knockoff+: the rate itself", "knockoff": "knockoff: a modified rate"},
        is_expert=True,
    ),
    Option(
        "copies",
        None,
        "Copies",
        "Knockoff copies per annotator. Empty: 1/q below 500 annotators, else 5. More copies allow shorter lists.",
        is_whole=True,
        low=1,
        high=100,
        may_be_empty=True,
        is_expert=True,
    ),
    Option(
        "aggregate",
        "majority",
        "How draws are combined",
        "The majority of draws is checked by simulation; e-values have a proof and select fewer.",
        {"majority": "majority of draws", "evalues": "e-values"},
        is_expert=True,
    ),
    Option(
        "variance",
        None,
        "Variance of the paper's construction",
        "Pools everybody's noise, or not that of outliers. Empty: plain if the paper's method is named, else two-pass.",
        {"plain": "as in the paper", "two-pass": "in two passes"},
        may_be_empty=True,
        is_expert=True,
    ),
    Option(
        "slack_solver",
        "auto",
        "Slack of the paper's construction",
        "How far copies stand from their annotators. The semidefinite program leaves some annotators no room.",
        {"auto": "maximum entropy", "sdp": "the paper's semidefinite program", "cvxpy": "the same by cvxpy"},
        is_expert=True,
    ),
    Option(
        "lbi_seconds",
        60.0,
        "Time for knockoff LBI",
        "Seconds that all draws together may take; at least one is made; their number is reported. Empty: no limit.",
        low=0.1,
        high=86_400,
        may_be_empty=True,
        is_expert=True,
    ),
    Option(
        "seed",
        0,
        "Seed",
        "Seed of the draws of knockoff LBI. The exact test draws nothing.",
        is_whole=True,
        low=0,
        is_expert=True,
        is_per_project=False,
    ),
)
BY_NAME: Mapping[str, Option] = MappingProxyType({option.name: option for option in OPTIONS})
PROJECT_OPTIONS: tuple[Option, ...] = tuple(option for option in OPTIONS if option.is_per_project)


def check_options(values: Mapping[str, Any]) -> None:
    """Refuse values outside their range and values that do not go together.

    Raises
    ------
    ConfigurationError
    """
    for name, value in values.items():
        BY_NAME[name].check(value)
    if values["draws"] == 0 and decides_by(values) == "lbi":
        raise ConfigurationError(
            "draws was 0, but knockoff LBI decides (decide_by='lbi', or a construction was named by method); "
            "expected at least 1, or decide_by='exact' with method='auto'"
        )
    if values["method"] == "flip" and values["sides"] == "not random":
        raise ConfigurationError(
            "method='flip' needs sides assigned by chance, but sides='not random' was given; "
            "use method='paper' or 'auto', or sides='random' if coins decided after all"
        )
    if values["method"] == "paper" and (values.get("copies") or 1) > 1:
        raise ConfigurationError(
            f"copies was {values['copies']}, but the paper's construction (method='paper') has one copy per annotator; "
            "leave copies out, or use method='flip'"
        )
    if values.get("judge") == "everybody" and values["method"] != "paper":
        raise ConfigurationError(
            f"judge='everybody' was given with method={values['method']!r}; expected method='paper', whose study it "
            "reproduces; leave judge out otherwise"
        )


def decides_by(values: Mapping[str, Any]) -> str:
    """Return "exact" or "lbi": naming a construction means deciding by LBI with it."""
    return "lbi" if values["method"] != "auto" else str(values["decide_by"])


@dataclass(frozen=True)
class Options:
    """Checked values of all `OPTIONS`, and what follows from them; see `detect`."""

    q: float
    min_bias: float
    sides: str
    decide_by: str
    consensus: str
    draws: int
    method: str
    judge: str
    path: str
    cut: str
    copies: int | None
    aggregate: str
    variance: str | None
    slack_solver: str
    lbi_seconds: float | None
    seed: int

    def __post_init__(self) -> None:
        """Check."""
        check_options(self.__dict__)

    @property
    def decides_by(self) -> str:
        """Return "exact" or "lbi"."""
        return decides_by(self.__dict__)

    @property
    def variance_used(self) -> str:
        """Which pooled variance the paper's construction uses."""
        return self.variance or ("plain" if self.method == "paper" else "two-pass")

    @property
    def budget(self) -> float:
        """Seconds for knockoff LBI."""
        return math.inf if self.lbi_seconds is None else self.lbi_seconds

    def as_dict(self, copies: int, ridge: float) -> dict[str, Any]:
        """Everything needed to run the same detection again."""
        return {
            **self.__dict__,
            "decide_by": self.decides_by,
            "copies": copies,
            "ridge": ridge,
            "version": __version__,
        }
