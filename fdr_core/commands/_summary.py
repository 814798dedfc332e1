"""The summary of a report on a terminal: names whole, columns that fit, findings in colour."""

import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import click

from fdr_core.comparisons import Comparisons
from fdr_core.inputs.sanity import repeats
from fdr_core.report.opinions import holds_zero_words, strength
from fdr_core.report.words import (
    NOTHING,
    change_words,
    finding_kind,
    lean_interval,
    lean_words,
    left_out_words,
    list_words,
    p_value,
    percent,
    plural,
    says_lean,
)
from fdr_core.terminal import printable

GAP = "  "


def cell_width(text: str) -> int:
    """How many places a text takes: wide letters take two, what is drawn over another none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def widths(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """What each column needs, its name included."""
    return {name: max(cell_width(text) for text in (name, *(row[name] for row in rows))) for name in columns}


def table(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, str]],
    *,
    words: Sequence[str] = (),
    width: int | None = None,
    styles: Sequence[tuple[str, Mapping[str, str | bool]]] = (),
) -> list[str]:
    """
    Lay rows out in lines; `words` are columns set from the left, all others are figures.

    The first column is folded where all together are wider than `width`; `styles` names for each row one column and
    how `click.style` shows it.
    """
    room = widths(columns, rows)
    if width is not None:
        others = sum(room[name] + len(GAP) for name in columns[1:])
        room[columns[0]] = min(room[columns[0]], max(width - others, cell_width(columns[0])))

    def line(cells: Mapping[str, str], styled: tuple[str, Mapping[str, str | bool]] | None = None) -> str:
        shown = []
        for name in columns:
            text, blank = cells.get(name, ""), " " * (room[name] - cell_width(cells.get(name, "")))
            if styled is not None and name == styled[0]:
                text = click.style(text, **styled[1])  # type: ignore[arg-type]  # names and flags in one mapping
            shown.append(text + blank if name in words else blank + text)
        return GAP.join(shown).rstrip()

    lines = [line({name: name for name in columns})]
    for place, row in enumerate(rows):
        first, *rest = _folded(row[columns[0]], room[columns[0]])
        lines.append(line({**row, columns[0]: first}, styles[place] if styles else None))
        lines += [line({columns[0]: part}) for part in rest]
    return lines


def _folded(text: str, width: int) -> list[str]:
    """A text in parts that fit; nothing of it is left out."""
    parts = [""]
    for letter in text:
        if cell_width(parts[-1] + letter) > width:
            parts.append("")
        parts[-1] += letter
    return parts


MOST_ROWS = 15
#: A width that no line reaches, for output that goes into a file or another program.
UNLIMITED = 100_000
STYLES: Mapping[str, Mapping[str, str | bool]] = {
    "always": {"fg": "red", "bold": True},
    "lean": {"fg": "yellow"},
    "calm": {},
    "wait": {"dim": True},
}
#: Columns with what they show of a row; those further down are left out first where not all fit.
COLUMNS = ("annotator", "finding", "lean", "evidence", "answers", "95 %", "left/right/tie", "adj. p", "proof", "LBI")
WORDS = ("annotator", "finding", "lean", "evidence")


def terminal_width() -> int:
    """As wide as the terminal, or without limit where nobody looks."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def summary(report: Mapping[str, Any], width: int) -> list[str]:
    """The lines that tell the audit, the first rows of the table, and what the flags promise."""
    data, annotators = report["data"], report["annotators"]
    n_flagged = sum(row["flagged"] for row in annotators)
    counts = ", ".join(plural(data[f"{noun}s"], noun) for noun in ("answer", "annotator", "item"))
    lines = [f"{counts}: {n_flagged} flagged"]
    if report["audit"]["construction"] != "none" or n_flagged:
        lines.append(list_words(annotators, report["guarantee"]["kind"], report["parameters"].get("q")))
    lines += [f"- {sentence}" for sentence in (*report["audit"]["reasons"], *report["audit"]["remedies"])]
    shown = annotators[: max(MOST_ROWS, n_flagged)]
    decided_by = report["method"]["decided_by"]
    lines += _table(shown, width, decided_by)
    if len(annotators) > len(shown):
        lines.append(f"and {len(annotators) - len(shown):,} more in the report")
    lines += [f"{printable(str(row['annotator']))}: {row['difference']}" for row in annotators if row["difference"]]
    told = {str(row["annotator"]): holds_zero_words(row) for row in annotators}
    if any(told.values()):
        names = ", ".join(printable(name) for name, words in told.items() if words)
        lines.append(f"{names}: {next(filter(None, told.values()))}")
    beyond = _other_leans(report.get("other_leans") or [])
    return [*lines, report["guarantee"]["sentence"], *beyond, *_changes(report.get("changes"))]


def _changes(found: Mapping[str, Any] | None) -> list[str]:
    """Whose lean has changed."""
    if not found:
        return []
    moved = [row for row in found["annotators"] if row["changed"]]
    lines = ["", f"lean changed: {len(moved)} of {plural(len(found['annotators']), 'annotator')}"]
    return [
        *lines,
        *(f"  {printable(str(row['annotator']))}: {change_words(row)}" for row in moved),
        *(f"- {reason}" for reason in found["reasons"]),
    ]


def _other_leans(lists: list[dict[str, Any]]) -> list[str]:
    """Each list beyond position: whom it names, what it promises, and what placebos gave."""
    lines = []
    for one in lists:
        flagged = [row for row in one["annotators"] if row["flagged"]]
        lines += ["", f"{one['lean']}: {len(flagged)} of {plural(len(one['annotators']), 'annotator')} flagged"]
        shown = flagged if one["how"] != "goes with" else one["annotators"][:MOST_ROWS]
        lines += [f"  {printable(str(row['annotator']))}: {row['finding']}" for row in shown]
        lines += [f"- {said}" for said in (*one["reasons"], one["promise"] + ".", one["placebos"]) if said]
    return lines


def say_left_out(excluded: Mapping[str, int], comparisons: Comparisons | None = None) -> None:
    """Count what was not judged, by reason, and what repeats; on the terminal's other stream, since it is no result."""
    counts = [f"{count:,} {left_out_words(reason)}" for reason, count in excluded.items() if count]
    if counts:
        click.echo(f"Left out: {printable('; '.join(counts))}", err=True)
    for sentence in repeats(comparisons) if comparisons is not None else ():
        click.echo(f"Note: {printable(sentence)}", err=True)


def _table(rows: list[dict[str, Any]], width: int, decided_by: Any) -> list[str]:
    """Lay out the annotators, strongest evidence first, with the columns that fit beside the whole names."""
    cells = [_cells(row, decided_by) for row in rows]
    styles = [("finding", STYLES[finding_kind(row["finding"])]) for row in rows]
    return table(_fitting(cells, width), cells, words=WORDS, width=width, styles=styles)


def _cells(row: Mapping[str, Any], decided_by: Any) -> dict[str, str]:
    """What each column says of an annotator."""
    return {
        "annotator": printable(str(row["annotator"])),
        "finding": row["finding"],
        "lean": lean_words(row["bias"]) if says_lean(row) else NOTHING,
        "evidence": strength(row),
        "answers": str(row["comparisons"]),
        "95 %": lean_interval(row) if says_lean(row) else "",
        "left/right/tie": f"{row['left']}/{row['right']}/{row['ties']}",
        "adj. p": p_value(row["q_value"]),
        "proof": ("yes" if row.get("proven") else "no") if row.get("exact_list") else "",
        "LBI": percent(row["lbi_share"]),
    }


def _fitting(cells: list[dict[str, str]], width: int) -> list[str]:
    """As many columns as fit into the width beside the names; name and finding always stay."""
    kept = list(COLUMNS)
    widest = widths(kept, cells)
    while len(kept) > 2 and sum(widest[name] + len(GAP) for name in kept) > width:
        kept.pop()
    return kept
