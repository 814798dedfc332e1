"""What a report says, as plain values: of an analysis, or of a run that somebody stored."""

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fdr_core._version import versions
from fdr_core.report.heaviest import HEAVY_KEYS, heaviest_of_sums
from fdr_core.report.words import finding_words

if TYPE_CHECKING:
    import pandas as pd

    from fdr_core import Comparisons, Detection, SufficientStatistics
    from fdr_core.changes import Changes
    from fdr_core.other_leans import LeanList
    from fdr_core.other_leans.features import WithoutTaste


def plain(value: Any) -> Any:
    """Turn numpy's values into Python's, and numbers that are not finite into None."""
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Sequence | set | frozenset):
        return [plain(inner) for inner in value]
    return str(value)


SCHEMA_VERSION = 2
ANNOTATOR_KEYS = (
    "annotator", "name", "comparisons", "left", "right", "ties", "bias", "bias_low", "bias_high", "entry",
    "p_value", "match_ratio", "flagged", "more_needed", "first_seen", "last_seen",
    "median_lead_time", "longest_run", "persistent", "warned", "sup_e", "finding", "q_value", "exact_list",
    "proven", "lbi_share", "lbi_list", "difference",
    "later", "decision", "decision_by", "decision_at", "decision_reason",
)  # fmt: skip
METHOD_KEYS = (
    "decided_by", "exact_list", "proven", "lbi_list", "draws_done", "draws_asked", "differences", "converged",
    "lean_basis",
)  # fmt: skip
ITEM_KEYS = (
    "item", "label", "score", "se", "rank", "rank_low", "rank_high", "raw_score", "raw_rank", "component",
    "probability",
)  # fmt: skip
LEAN_KEYS = (
    "annotator", "name", "answers", "effect", "low", "high", "p_value", "q_value", "flagged", "finding",
)  # fmt: skip
LIST_KEYS = ("lean", "chosen", "how", "promise", "reasons", "placebos", "gold_needed")
CHANGE_KEYS = ("above", "below", "raw_difference", "difference", "probability")
DATA_KEYS = (
    "source", "run", "finished_at", "sha256", "answers", "annotators", "items", "ties", "coins", "coin_source",
    "excluded", "first_answer", "last_answer", "settings_changed",
)  # fmt: skip
# What could tell who an annotator is, besides the id.
TELLING_KEYS = frozenset({"name", "first_seen", "last_seen", "later", "decision_by", "decision_at", "decision_reason"})
#: By which Excel knows UTF-8.
EXCEL_MARK = b"\xef\xbb\xbf"
TIME_KEYS = ("first_seen", "last_seen", "decision_at")
PLAIN = frozenset({type(None), bool, int, str})


def report_of_data(
    detection: "Detection",
    data: Mapping[str, Any],
    statistics: "SufficientStatistics | None" = None,
    *,
    title: str | None = None,
    made_at: float | None = None,
    leans: "Mapping[str, LeanList] | None" = None,
    taste: "WithoutTaste | None" = None,
    changes: "Changes | None" = None,
) -> dict[str, Any]:
    """The report of an analysis, with what is to be said of its data; with its sums also the heaviest answers.

    ``leans``, ``taste`` : beyond position; ``changes`` : of leans in time; where they were asked for.
    """
    return document(
        title=title,
        made_at=made_at,
        heaviest_answers=heaviest_of_sums(detection, statistics) if statistics is not None else [],
        data=dict(data),
        parameters=plain(detection.parameters),
        audit=plain(detection.audit.as_dict()),
        guarantee={
            "kind": detection.guarantee.kind,
            "sentence": detection.guarantee.sentence,
            "smallest_list": int(detection.smallest_list),
        },
        method=only(detection.method, METHOD_KEYS),
        annotators=_rows(detection.annotators),
        ranking=_rows(detection.ranking),
        order_changes=_rows(detection.order_changes),
        versions=versions(),
        other_leans=[lean_document(one) for one in (leans or {}).values()],
        without_taste=taste_document(taste),
        changes=changes_document(changes),
    )


def lean_document(found: "LeanList") -> dict[str, Any]:
    """A lean's list as plain values."""
    facts = {**vars(found), "placebos": None if found.placebos is None else str(found.placebos)}
    return {**only(facts, LIST_KEYS), "annotators": [only(row, LEAN_KEYS) for row in _rows(found.annotators)]}


def taste_document(found: "WithoutTaste | None") -> dict[str, Any] | None:
    """The ranking without the crowd's taste as plain values."""
    if found is None:
        return None
    return {"reason": found.reason, "tastes": plain(_rows(found.tastes)), "ranking": plain(_rows(found.ranking))}


def changes_document(found: "Changes | None") -> dict[str, Any] | None:
    """Leans by week, and whose has changed, as plain values."""
    if found is None:
        return None
    tables = {"annotators": _rows(found.annotators), "weeks": _rows(found.weeks)}
    return {"q": found.q, "reasons": list(found.reasons), **{name: plain(rows) for name, rows in tables.items()}}


def pseudonymised(report: Mapping[str, Any]) -> dict[str, Any]:
    """Number the annotators in the order of the table, and leave out what could tell who or what they are.

    Names, the times at which each was seen, who changed what, and the name of the source go; a copy is returned.
    """
    annotators = [
        {**row, **dict.fromkeys(TELLING_KEYS & row.keys()), "annotator": f"annotator {number}"}
        for number, row in enumerate(report["annotators"], start=1)
    ]
    numbers = {
        row["annotator"]: hidden["annotator"] for row, hidden in zip(report["annotators"], annotators, strict=True)
    }
    heaviest = [{**row, "annotator": numbers[row["annotator"]], "task": None} for row in report["heaviest_answers"]]
    data = {**report["data"], "source": None, "settings_changed": None}
    others = [
        {
            **one,
            "annotators": [{**row, "annotator": numbers[row["annotator"]], "name": None} for row in one["annotators"]],
        }
        for one in report.get("other_leans") or []
    ]
    changes = report.get("changes") and {
        **report["changes"],
        **{
            table: [{**row, "annotator": numbers[row["annotator"]]} for row in report["changes"][table]]
            for table in ("annotators", "weeks")
        },
    }
    hidden_rows = {"annotators": annotators, "heaviest_answers": heaviest, "other_leans": others, "changes": changes}
    return {**report, **hidden_rows, "data": data}


def document(
    *,
    annotators: Iterable[Mapping[str, Any]],
    ranking: Iterable[Mapping[str, Any]],
    order_changes: Iterable[Mapping[str, Any]],
    heaviest_answers: Iterable[Mapping[str, Any]],
    **parts: Any,
) -> dict[str, Any]:
    """Put the parts together in their fixed order, every row with every key."""
    rows = {
        "annotators": [
            only({**row, "finding": finding_words(row.get("finding"))}, ANNOTATOR_KEYS) for row in annotators
        ],
        "ranking": [only(row, ITEM_KEYS) for row in ranking],
        "order_changes": [only(row, CHANGE_KEYS) for row in order_changes],
        "heaviest_answers": [only(row, HEAVY_KEYS) for row in heaviest_answers],
    }
    order = (
        "data", "parameters", "audit", "method", "guarantee", "annotators", "ranking", "order_changes", "versions",
        "title", "made_at", "heaviest_answers", "other_leans", "without_taste",
        "changes",
    )  # fmt: skip
    known = {"other_leans": [], "without_taste": None, "changes": None, **parts, **rows}
    return {"schema_version": SCHEMA_VERSION, **{name: known[name] for name in order}}


def only(row: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """A row's values under these keys, None where it has none; most are plain already."""
    values = ((key, row.get(key)) for key in keys)
    return {key: value if type(value) in PLAIN else plain(value) for key, value in values}


def _rows(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """A table as one mapping per row."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def file_data(comparisons: "Comparisons", source: Path) -> dict[str, Any]:
    """Describe the answers, and name the file by its content."""
    known = [moment for moment in plain(comparisons.time) or () if moment is not None]
    facts = {
        "source": source.name,
        "sha256": _sha256(source) if source.is_file() else None,
        "answers": len(comparisons),
        "annotators": comparisons.n_annotators,
        "items": comparisons.n_items,
        "ties": int((comparisons.outcome == 0).sum()),
        "coins": int(comparisons.coin.max()) + 1,
        "coin_source": comparisons.coin_source,
        "excluded": comparisons.excluded,
        "first_answer": min(known, default=None),
        "last_answer": max(known, default=None),
    }
    return only(facts, DATA_KEYS)


def sums_data(statistics: "SufficientStatistics", *, source: str, files: Sequence[Path]) -> dict[str, Any]:
    """Describe answers of which only sums are known, and name their files by their content."""
    answers = statistics.answers()
    facts = {
        "source": source,
        "sha256": _sha256_of_all(files) if files else None,
        "answers": len(statistics),
        "annotators": len(statistics.annotators),
        "items": len(statistics.items),
        "ties": int(answers.weight[answers.outcome == 0].sum()),
        "coins": len(set(answers.coin.tolist())),
        "coin_source": statistics.coin_source,
        "excluded": statistics.excluded,
    }
    return only(facts, DATA_KEYS)


def _sha256_of_all(files: Sequence[Path]) -> str:
    """Of one file its own hash; of several the hash of their hashes, in order of name."""
    hashes = [_sha256(path) for path in files]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _sha256(path: Path) -> str:
    """Hash a file in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Spreadsheets run cells that begin with these; the wide forms count too.
FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")


def report_json(report: Mapping[str, Any]) -> bytes:
    """The whole report."""
    text = json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False)
    return (text + "\n").encode("utf-8", "replace")


def annotators_csv(report: Mapping[str, Any]) -> bytes:
    """One line per annotator, worst first."""
    return EXCEL_MARK + csv_bytes(*_annotators(report))


def annotators_xlsx(report: Mapping[str, Any]) -> bytes:
    """The same as a workbook; needs openpyxl."""
    from openpyxl import Workbook
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook(write_only=True)
    sheet = book.create_sheet("annotators")
    sheet.freeze_panes = "B2"
    keys, rows = _annotators(report)
    sheet.append(keys)
    for row in rows:
        cells = [cell(row[key]) for key in keys]
        sheet.append([ILLEGAL_CHARACTERS_RE.sub(" ", one) if isinstance(one, str) else one for one in cells])
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def _annotators(report: Mapping[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows as spreadsheets take them: times as ISO 8601, the lean as side and size too."""
    keys = list(ANNOTATOR_KEYS)
    keys[keys.index("bias") : keys.index("bias")] = ["lean_side", "lean_size"]
    rows = []
    for row in report["annotators"]:
        lean = row["bias"]
        side = None if not lean else "left" if lean > 0 else "right"
        times = {key: _iso(row[key]) for key in TIME_KEYS}
        rows.append({**row, **times, "lean_side": side, "lean_size": None if lean is None else abs(lean)})
    return keys, rows


def _iso(moment: Any) -> Any:
    """Seconds since 1970 as ISO 8601 in UTC; what is no such number stays."""
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        return moment
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):  # a year that no calendar has
        return moment


def ranking_csv(report: Mapping[str, Any]) -> bytes:
    """One line per item, best first."""
    return EXCEL_MARK + csv_bytes(ITEM_KEYS, report["ranking"])


def leans_csv(report: Mapping[str, Any]) -> bytes:
    """One line per lean beyond position and annotator."""
    rows = [
        {**row, "lean": one["lean"], "how": one["how"]}
        for one in report.get("other_leans", ())
        for row in one["annotators"]
    ]
    return EXCEL_MARK + csv_bytes(("lean", "how", *LEAN_KEYS), rows)


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


def csv_bytes(keys: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as CSV."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([cell(row[key]) for key in keys] for row in rows)
    return sink.getvalue().encode("utf-8", "replace")
