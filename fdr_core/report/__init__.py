"""Reports: one document per analysis, written as JSON, HTML and CSV, the same bytes wherever they are asked for."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fdr_core.report.document import (
    annotators_csv,
    annotators_xlsx,
    leans_csv,
    pseudonymised,
    ranking_csv,
    report_json,
    report_of_data,
)

__all__ = [
    "FILES",
    "MEDIA_TYPES",
    "pseudonymised",
    "render",
    "report_of_data",
    "write_report",
]

Report = Mapping[str, Any]


def _html(report: Report) -> bytes:
    """The page; its template engine is loaded only when a page is asked for."""
    from fdr_core.report.page import report_html

    return report_html(report)


_WRITERS: Mapping[str, Callable[[Report], bytes]] = {
    "report.html": _html,
    "report.json": report_json,
    "annotators.csv": annotators_csv,
    "ranking.csv": ranking_csv,
    "leans.csv": leans_csv,
}
FILES: tuple[str, ...] = tuple(_WRITERS)
MEDIA_TYPES: Mapping[str, str] = {
    "report.html": "text/html; charset=utf-8",
    "report.json": "application/json",
    "annotators.csv": "text/csv; charset=utf-8",
    "ranking.csv": "text/csv; charset=utf-8",
    "leans.csv": "text/csv; charset=utf-8",
}


def render(report: Report, name: str) -> bytes:
    """One of the FILES as bytes."""
    return _WRITERS[name](report)


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write the files into a folder, made if need be, and return their paths; leans beyond position only if asked."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in FILES:
        if name == "leans.csv" and not report.get("other_leans"):
            continue
        written.append(folder / name)
        written[-1].write_bytes(render(report, name))
    with suppress(ModuleNotFoundError):  # a workbook too, where openpyxl is installed
        book = annotators_xlsx(report)
        written.append(folder / "annotators.xlsx")
        written[-1].write_bytes(book)
    return written
