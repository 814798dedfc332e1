"""Answers as the store holds them."""

from __future__ import annotations

from backend.domain import Comparison


def plain_answer(
    number: int,
    annotator: str,
    left: str,
    right: str,
    outcome: float,
    *,
    at: float,
    task: int | None = None,
    lead_time: float = 3.0,
) -> Comparison:
    """An answer that counts: not skipped, not ground truth, no coin; its task has the same number unless given."""
    return Comparison(
        annotation_id=number,
        task_id=number if task is None else task,
        annotator_id=annotator,
        left_item=left,
        right_item=right,
        coin=None,
        stratum=None,
        outcome=outcome,
        status="answer",
        reason=None,
        ground_truth=False,
        lead_time=lead_time,
        created_at=at,
        updated_at=at,
    )
