"""What people set about a detection: the arguments of `detect`, each declared once with its default, bounds and words.

`detect` checks its arguments here; command line, project settings, the settings form and docs/options.md are made from
these fields and from those of `KnockoffLBI`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fdr_core._version import __version__
from fdr_core.errors import ConfigurationError
from fdr_core.option import Option, check_options, option, options_of
from fdr_core.paper.knockoff_lbi import OFF, KnockoffLBI

STANDARD_LBI = KnockoffLBI()


@dataclass(frozen=True)
class Options:
    """The checked arguments of `detect`."""

    q: float = option(
        0.1,
        "Target error rate q",
        "At most this share of the flags is wrong, on average over many lists. Smaller: fewer, surer flags.",
        low=0,
        high=1,
        excludes_bounds=True,
    )
    min_bias: float = option(
        0.1,
        "Smallest lean worth a flag",
        "A certain but tiny lean is of no interest: leans below this are never flagged.",
        low=0,
        high=1,
    )
    sides: str = option(
        "audit",
        "Sides",
        "Were the sides assigned by chance? State it only if you know; if it is not true, flags will be wrong.",
        {
            "audit": "let the audit test it",
            "random": "I state that coins decided the sides",
            "not random": "I state that sides were not assigned by chance",
        },
    )
    decide_by: str = option(
        "exact",
        "Who is flagged",
        "The exact test of each annotator decides, or knockoff LBI, the paper's method. Both are shown either way.",
        {"exact": "by the exact test of each annotator", "lbi": "by knockoff LBI"},
    )
    consensus: str = option(
        "logistic",
        "Ranking of the items",
        "How item scores are fitted: log odds with a slope per annotator, or the paper's least squares.",
        {"logistic": "logistic (Bradley-Terry)", "least squares": "the paper's least squares"},
    )
    parts: str = option(
        "whole",
        "Parts of the answers",
        "Test leans that show late in the order of arrival, on close pairs or on long texts as well; plain leans are "
        "then found a little less often.",
        {"whole": "the answers as a whole", "all": "also late answers, close pairs, long texts"},
    )
    lbi: KnockoffLBI | None = STANDARD_LBI

    def __post_init__(self) -> None:
        """Check, and refuse values that do not go together."""
        check_options(self)
        if not (self.lbi is None or isinstance(self.lbi, KnockoffLBI)):
            raise ConfigurationError(f"lbi was {self.lbi!r}; expected KnockoffLBI(...), or None to leave it out")
        if self.lbi is None and self.decide_by == "lbi":
            raise ConfigurationError(
                "decide_by='lbi' was given, but knockoff LBI was left out (lbi=None, or off); expected "
                "lbi=KnockoffLBI(...), or decide_by='exact'"
            )
        if self.lbi is not None and self.lbi.construction == "flip" and self.sides == "not random":
            raise ConfigurationError(
                "construction='flip' needs sides assigned by chance, but sides='not random' was given; "
                "use construction='paper' or 'auto', or sides='random' if coins decided after all"
            )

    @property
    def construction(self) -> str:
        """The construction that was asked for."""
        return "auto" if self.lbi is None else self.lbi.construction

    @property
    def seed(self) -> int:
        """Of the draws: the same in every run, so that flags change because answers came in."""
        return 0 if self.lbi is None else self.lbi.seed

    def as_dict(self, copies: int, ridge: float) -> dict[str, Any]:
        """Everything needed to run the same detection again."""
        used = replace(self.lbi, copies=copies) if self.lbi and copies else self.lbi
        lbi = used.text_in_full if used else OFF
        return {**self.__dict__, "lbi": lbi, "ridge": ridge, "version": __version__}


OPTIONS: tuple[Option, ...] = options_of(Options)
LBI_OPTIONS: tuple[Option, ...] = options_of(KnockoffLBI)
BY_NAME = {one.name: one for one in OPTIONS}
LBI_TITLE = "Knockoff LBI, for experts"
LBI_WORDS = (
    f"How the paper's method is run: {OFF}, or names with values such as draws=50,path=iss; every name stands in "
    "docs/options.md. Leave it empty unless you reproduce a study."
)
