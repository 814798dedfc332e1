"""The summary of a report on a terminal: names whole, columns that fit, findings in colour."""

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fdr_core.report.opinions import holds_zero_words, strength
from fdr_core.report.words import finding_kind, lean_interval, lean_words, p_value, percent, plural
from fdr_core.terminal import printable

MOST_ROWS = 15
#: A width that no line reaches, for output that goes into a file or another program.
UNLIMITED = 100_000
COLOURS = {"always": "bold red", "lean": "yellow", "calm": "", "wait": "dim"}
#: Columns with what they show of a row; those further down are left out first where not all fit.
COLUMNS = ("annotator", "finding", "lean", "evidence", "answers", "95 %", "left/right/tie", "adj. p", "LBI")


def terminal_console() -> Console:
    """A console as wide as the terminal, or without limit where nobody looks; NO_COLOR is honoured."""
    return Console() if sys.stdout.isatty() else Console(width=UNLIMITED)


def print_summary(report: Mapping[str, Any], console: Console) -> None:
    """Print the audit, the first rows of the table, and what the flags promise; all texts literally."""
    data, annotators = report["data"], report["annotators"]
    n_flagged = sum(row["flagged"] for row in annotators)
    counts = ", ".join(plural(data[f"{noun}s"], noun) for noun in ("answer", "annotator", "item"))
    console.print(Text(f"{counts}: {n_flagged} flagged"))
    for sentence in (*report["audit"]["reasons"], *report["audit"]["remedies"]):
        console.print(Text(f"- {sentence}"))
    shown = annotators[: max(MOST_ROWS, n_flagged)]
    decided_by = report["method"]["decided_by"]
    console.print(_table(shown, console.width, decided_by))
    if len(annotators) > len(shown):
        console.print(Text(f"and {len(annotators) - len(shown):,} more in the report"))
    for row in (row for row in annotators if row["difference"]):
        console.print(Text(f"{printable(str(row['annotator']))}: {row['difference']}"))
    told = {str(row["annotator"]): holds_zero_words(row, decided_by) for row in annotators}
    if any(told.values()):
        names = ", ".join(printable(name) for name, words in told.items() if words)
        console.print(Text(f"{names}: {next(filter(None, told.values()))}"))
    console.print(Text(report["guarantee"]["sentence"]))


def _table(rows: list[dict[str, Any]], width: int, decided_by: Any) -> Table:
    """Lay out the annotators, strongest evidence first, with the columns that fit beside the whole names."""
    cells = [_cells(row, decided_by) for row in rows]
    kept = _fitting(cells, width)
    table = Table(*kept, box=None, pad_edge=False, padding=(0, 1))
    for column, name in zip(table.columns, kept, strict=True):
        column.no_wrap = name != "annotator"
        column.overflow = "fold"
        column.justify = "left" if name in ("annotator", "finding", "lean", "evidence") else "right"
    for row, cell in zip(rows, cells, strict=True):
        style = COLOURS[finding_kind(row["finding"])]
        table.add_row(*(Text(cell[name], style=style if name == "finding" else "") for name in kept))
    return table


def _cells(row: Mapping[str, Any], decided_by: Any) -> dict[str, str]:
    """What each column says of an annotator."""
    return {
        "annotator": printable(str(row["annotator"])),
        "finding": row["finding"],
        "lean": lean_words(row["bias"]),
        "evidence": strength(row, decided_by),
        "answers": str(row["comparisons"]),
        "95 %": lean_interval(row),
        "left/right/tie": f"{row['left']}/{row['right']}/{row['ties']}",
        "adj. p": p_value(row["q_value"]),
        "LBI": percent(row["lbi_share"]),
    }


def _fitting(cells: list[dict[str, str]], width: int) -> list[str]:
    """As many columns as fit into the width beside the names; name and finding always stay."""
    kept = list(COLUMNS)
    widest = {name: max([len(name), *(len(cell[name]) for cell in cells)]) for name in kept}
    while len(kept) > 2 and sum(widest[name] + 2 for name in kept) > width:
        kept.pop()
    return kept
