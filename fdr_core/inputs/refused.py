"""Formats that hold preferences but no side: refused with what would make them readable."""

from collections.abc import Callable
from typing import NoReturn

from fdr_core.errors import InputError
from fdr_core.inputs.formats import Format, has_columns
from fdr_core.inputs.source import Source

_REMEDY = "record judge, shown_first, shown_second and answer (fdr_core.judges.record does)"


def _refused(name: str, title: str, recognises: Callable[[Source], bool], fields: tuple[str, ...], why: str) -> Format:
    def refuse(source: Source, **_: object) -> NoReturn:
        raise InputError(f"{source.where}{why}; {_REMEDY}")

    uses = dict.fromkeys(fields, "cannot be used: no side")
    return Format(name, title, recognises, refuse, uses, lacks=(why,), refusal=f"{why}; {_REMEDY}")


FORMATS = (
    _refused(
        "deepeval-arena",
        "DeepEval arena test cases",
        has_columns("contestants"),
        ("contestants", "winner"),
        "DeepEval draws the order of the contestants inside the metric and does not keep it, so a lean cannot be seen",
    ),
    _refused(
        "langsmith",
        "LangSmith pairwise feedback",
        has_columns("comparative_experiment_id"),
        ("run_id", "score"),
        "LangSmith's pairwise feedback gives each run a score and does not keep which run was shown first, so a lean "
        "cannot be seen",
    ),
    _refused(
        "chosen-rejected",
        "chosen and rejected answers",
        has_columns("chosen", "rejected"),
        ("chosen", "rejected"),
        "the columns chosen and rejected (as in TRL, UltraFeedback, hh-rlhf, RewardBench) say which answer won, but "
        "neither on which side it stood nor who judged: a lean cannot be seen in them; go back to the data they were "
        "made from",
    ),
)
