"""Tables of crowd platforms and samples of harnesses: whose fields they are is known, which of them is guessed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from fdr_core.errors import InputError
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import Format, has_columns
from fdr_core.inputs.label_studio.words import paired_names
from fdr_core.inputs.layouts import Layout
from fdr_core.inputs.rows import outcomes_of
from fdr_core.inputs.source import Record, Source

_REMEDY = "record judge, shown_first, shown_second and answer (fdr_core.judges.record does)"


def _refused(name: str, title: str, recognises: Callable[[Source], bool], fields: tuple[str, ...], why: str) -> Format:
    def refuse(source: Source, **_: object) -> NoReturn:
        raise InputError(f"{source.where}{why}; {_REMEDY}")

    uses = dict.fromkeys(fields, "cannot be used: no side")
    return Format(name, title, recognises, refuse, uses, lacks=(why,), refusal=f"{why}; {_REMEDY}")


REFUSED = (
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


_PARTICIPANT = ("PROLIFIC_PID", "Participant id", "participant_id", "prolific_id")


def _pair(source: Source, names: Sequence[str], *, example: str) -> tuple[str, str]:
    """The two fields that were shown: named alike but for the side."""
    found = paired_names(names)
    if not found:
        raise InputError(
            f"{source.where}cannot tell which fields were compared; found: {', '.join(names[:20]) or 'none'}; expected "
            f"two that differ in the side only, such as {example}; or name them: --map left=… --map right=…"
        )
    return found[0]


def _answer(source: Source, names: Sequence[str], records: Sequence[Record]) -> str:
    """The one field whose values say which side won."""
    fits = [name for name in names if _says_side([record.get(name) for record in records])]
    if len(fits) != 1:
        seen = f"{', '.join(fits)} all do" if fits else f"none of {', '.join(names[:20]) or 'none'} does"
        raise InputError(
            f"{source.where}expected one field that says which side won (left/right, A/B, 1/2, tie); {seen}; "
            "name it: --map choice=…"
        )
    return fits[0]


def _says_side(values: Sequence[Any]) -> bool:
    given = [value for value in values if value not in (None, "")]
    outcomes = outcomes_of(given)
    return bool(given) and not np.isnan(outcomes).any() and bool((outcomes != 0).any())


def _mturk(source: Source) -> Layout:
    shown = [name for name in source.names if name.startswith("Input.")]
    left, right = _pair(source, shown, example="Input.response_a and Input.response_b")
    answers = [name for name in source.names if name.startswith("Answer.")]
    return Layout(
        name="mturk",
        title="Amazon Mechanical Turk batch results (CSV)",
        needs=("HITId", "WorkerId"),
        annotator=("WorkerId",),
        left=left,
        right=right,
        answers=(_answer(source, answers, source.sample),),
        task="HITId",
    )


def _prolific(source: Source) -> Layout:
    who = next(name for name in _PARTICIPANT if name in source.names)
    others = [name for name in source.names if name != who]
    left, right = _pair(source, others, example="response_a and response_b")
    return Layout(
        name="prolific",
        title="survey of Prolific participants",
        needs=(who,),
        annotator=(who,),
        left=left,
        right=right,
        answers=(_answer(source, [name for name in others if name not in (left, right)], source.sample),),
    )


def _lm_eval(source: Source) -> Layout:
    doc = source.sample[0].get("doc")
    left, right = _pair(
        source, list(doc) if isinstance(doc, Mapping) else [], example="response_a and response_b in doc"
    )
    return Layout(
        name="lm-eval",
        title="lm-evaluation-harness samples",
        needs=("doc", "filtered_resps"),
        annotator=("@folders",),
        left=f'doc."{left}"',
        right=f'doc."{right}"',
        answers=("filtered_resps[0]",),
        pattern=r"^\W*(left|right|first|second|tie|[ABC12])\b",
        task="doc_id",
    )


def _format(
    name: str,
    title: str,
    recognises: Callable[[Source], bool],
    layout: Callable[[Source], Layout],
    uses: Mapping[str, str],
    lacks: Sequence[str],
) -> Format:
    def read(source: Source, **given: Any) -> RawAnswers:
        return layout(source).read(source, **given)

    return Format(name, title, recognises, read, uses, ("Every judge is named.",), tuple(lacks))


_COIN = "One order of a task is shown to all its workers unless the task says otherwise: state --sides random if drawn."
FORMATS: tuple[Format, ...] = (
    _format(
        "mturk",
        "Amazon Mechanical Turk batch results (CSV)",
        has_columns("HITId", "WorkerId"),
        _mturk,
        {"WorkerId": "annotator", "HITId": "task", "Input.*": "items", "Answer.*": "answer"},
        (_COIN,),
    ),
    _format(
        "prolific",
        "survey of Prolific participants",
        lambda source: any(name in source.names for name in _PARTICIPANT),
        _prolific,
        {**dict.fromkeys(_PARTICIPANT, "annotator"), "other columns": "items and answer, by their names and values"},
        ("Nothing records whether a coin decided the sides: state --sides random if one did.",),
    ),
    _format(
        "lm-eval",
        "lm-evaluation-harness samples",
        has_columns("doc_id", "doc", "filtered_resps"),
        _lm_eval,
        {"doc": "items: the two fields that differ in the side only", "filtered_resps": "answer", "doc_id": "task"},
        ("Tasks that do not compare two texts are refused.",),
    ),
)
