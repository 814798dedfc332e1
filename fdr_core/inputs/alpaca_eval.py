"""AlpacaEval's annotations.json: a judge's preference between two outputs, and on which side each stood."""

from random import Random
from typing import Any

import numpy as np

from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import Format, has_columns
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.rows import Rows
from fdr_core.inputs.source import Record, Source

_SWITCHED = "is_switched_outputs"


def _read(source: Source) -> RawAnswers:
    rows = Rows()
    for record in source.records:
        if record.get("output_1") == record.get("output_2") and record.get("output_1") is not None:
            rows.excluded["identical outputs, not sent to the judge"] += 1
            continue
        outcome = _outcome(record.get("preference"))
        one, two = record.get("generator_1"), record.get("generator_2")
        if is_switched(record):
            one, two, outcome = two, one, -outcome
        coin = item_key(record.get("instruction"))
        rows.add(annotator=record.get("annotator"), left=one, right=two, outcome=outcome, coin=coin)
    return rows.answers(source.where)


def is_switched(record: Record) -> bool:
    """Whether output_2 was shown first: as recorded, else by AlpacaEval's own rule.

    Annotations are stored with the outputs back in their places. The rule draws one seeded coin per instruction, the
    same for all models and judges: ``Random("is_switched_outputs" + instruction + "0")``.
    """
    recorded = record.get(_SWITCHED)
    if isinstance(recorded, bool):
        return recorded
    return bool(Random(f"{_SWITCHED}{record.get('instruction')}0").choices([False, True])[0])


def _outcome(preference: Any) -> float:
    """From 1 (output_1) to 2 (output_2), 1.5 for a tie; older files write a tie as 0."""
    if isinstance(preference, bool) or not isinstance(preference, (int, float)):
        return np.nan
    if preference == 0:
        return 0.0
    return float(np.round(3.0 - 2.0 * preference, 12)) if 1 <= preference <= 2 else np.nan


FORMAT = Format(
    name="alpaca-eval",
    title="AlpacaEval annotations",
    recognises=has_columns("instruction", "generator_1", "generator_2", "annotator", "preference"),
    read=_read,
    uses={
        "annotator": "annotator: the judge's configuration",
        "generator_1": "item",
        "generator_2": "item",
        "preference": "answer: 1 for output_1 to 2 for output_2, graded in between",
        "instruction": "coin: AlpacaEval draws the order once per instruction",
        "output_1": "only to leave out pairs of identical outputs",
        "output_2": "only to leave out pairs of identical outputs",
        _SWITCHED: "side: whether output_2 was shown first",
    },
    supports=("Sides were drawn by a seeded coin per instruction, which is recorded or computed again.",),
    lacks=(
        "Where is_switched_outputs is missing the sides are those of AlpacaEval's rule with seed 0; annotations made "
        "with another seed would be read wrongly.",
        "One coin serves all models and judges of an instruction, and most pairs share one baseline.",
    ),
)
