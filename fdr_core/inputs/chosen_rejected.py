"""Sets of chosen and rejected answers, which have lost both the side and the annotator."""

from fdr_core.errors import InputError
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import Format, has_columns
from fdr_core.inputs.source import Source

REFUSAL = (
    "the columns chosen and rejected (as in TRL, UltraFeedback, hh-rlhf) say which answer won, but neither on which "
    "side it stood nor who judged: a lean cannot be seen in them; go back to the data they were made from, or record "
    "judge, shown_first, shown_second and answer (fdr_core.judges.record does)"
)


def _refuse(source: Source) -> RawAnswers:
    raise InputError(f"{source.where}{REFUSAL}")


FORMAT = Format(
    name="chosen-rejected",
    title="chosen and rejected answers",
    recognises=has_columns("chosen", "rejected"),
    read=_refuse,
    uses={"chosen": "cannot be used: no side", "rejected": "cannot be used: no side"},
    lacks=("Neither the side on which an answer stood nor the annotator is recorded.",),
    refusal=REFUSAL,
)
