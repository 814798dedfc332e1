"""How a tab of Label Studio's Data Manager is written down."""

from collections.abc import Iterable, Sequence
from typing import Any

# What Label Studio hides by default; a tab that does not say what is hidden shows every column.
HIDDEN_BY_DEFAULT = (
    "inner_id",
    "annotations_results",
    "annotations_ids",
    "predictions_score",
    "predictions_model_versions",
    "predictions_results",
    "file_upload",
    "storage_filename",
    "created_at",
    "updated_at",
    "updated_by",
    "avg_lead_time",
    "draft_exists",
)
HIDDEN_WHILE_LABELING = ("id", "completed_at", "cancelled_annotations", "total_predictions", "annotators")


NEWEST_FIRST = "-updated_at"


def view_data(
    title: str,
    *,
    filters: Sequence[dict[str, Any]] = (),
    hidden: Iterable[str] = (),
    order: str | None = None,
) -> dict[str, Any]:
    """The definition of a tab; tasks that meet any of the filters are shown, by id or by the column `order`."""
    explore = [f"tasks:{name}" for name in (*HIDDEN_BY_DEFAULT, *hidden)]
    labeling = [*explore, *(f"tasks:{name}" for name in HIDDEN_WHILE_LABELING)]
    return {
        "title": title,
        "type": "list",
        "target": "tasks",
        "filters": {"conjunction": "or", "items": list(filters)},
        "ordering": [] if order is None else ["-" * order.startswith("-") + f"tasks:{order.removeprefix('-')}"],
        "hiddenColumns": {"explore": explore, "labeling": labeling},
    }
