"""The report as JSON and as tables for spreadsheets."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fdr_core.report.document import ANNOTATOR_KEYS, ITEM_KEYS, LEAN_KEYS

# Spreadsheets run cells that begin with these; the wide forms count too.
FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")


def report_json(report: Mapping[str, Any]) -> bytes:
    """The whole report."""
    text = json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False)
    return (text + "\n").encode("utf-8", "replace")


def annotators_csv(report: Mapping[str, Any]) -> bytes:
    """One line per annotator, worst first."""
    return _csv(ANNOTATOR_KEYS, report["annotators"])


def ranking_csv(report: Mapping[str, Any]) -> bytes:
    """One line per item, best first."""
    return _csv(ITEM_KEYS, report["ranking"])


def leans_csv(report: Mapping[str, Any]) -> bytes:
    """One line per lean beyond position and annotator."""
    rows = [
        {**row, "lean": one["lean"], "how": one["how"]}
        for one in report.get("other_leans", ())
        for row in one["annotators"]
    ]
    return _csv(("lean", "how", *LEAN_KEYS), rows)


def cell(value: Any) -> Any:
    """A value as a cell; text a spreadsheet would run as a formula gets an apostrophe before it.

    Numbers we computed stay numbers, negative ones too.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    # A lone carriage return is not quoted and would begin a new row, hence a new first cell.
    text = str(value).replace("\r", " ")
    return f"'{text}" if text.startswith(FORMULA_STARTS) or text.lstrip().startswith(FORMULA_STARTS) else text


def _csv(keys: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as CSV."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([cell(row[key]) for key in keys] for row in rows)
    return sink.getvalue().encode("utf-8", "replace")
