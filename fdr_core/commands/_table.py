"""A table on a terminal: columns as wide as they need, one of them folded where the line is too short."""

import unicodedata
from collections.abc import Mapping, Sequence

import click

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
