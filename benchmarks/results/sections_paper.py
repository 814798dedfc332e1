"""The sections on the paper: its simulated study cell by cell, its real sets, and other real data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.results.claims import PrintedCell, printed_cells
from benchmarks.results.markdown import figure, mean, paragraph, table
from benchmarks.results.names import NAMES, WAYS
from benchmarks.results.paper_tables import CLICKS, ERRORS
from benchmarks.results.real_data import OTHERS, PAPERS, printed
from benchmarks.results.summary import NOT_RUN, Results
from harness.scenarios import Q

COLUMNS = {
    "iss T0, rows": "ISS, noise from rows",
    "lasso T0, rows": "LASSO, noise from rows",
    "iss T0": "ISS",
    "lasso T0": "LASSO",
    "two-pass T0": "ISS, two-pass variance",
    "iss T1": "ISS, knockoff+",
}
TITLES = {"worldcollege": "WorldCollege", "humanage": "Human Age", "iqa_ref1": "image quality, reference 1"}


def study(results: Results) -> list[str]:
    """Tables 1 and 2 of the paper, cell by cell."""
    head = ("p1, p2", "printed ISS", "printed LASSO", *COLUMNS.values(), "exact list")
    known = [cell for cell in printed_cells(results) if cell.ours]
    within = sum(abs(cell.gap) <= 3 for cell in known)
    return [
        "## The paper's simulated study, cell by cell",
        paragraph(
            "16 items, every pair answered once by each of 150 annotators: 100 err with probability p1, 50 click a "
            f"side of their own with probability p2 and otherwise err with p1. q = {Q}, {results.size.paper} data "
            "sets a cell, ± SE; plain cut (T0) unless said. One knockoff draw per data set, shared by all paths; "
            "bold: beyond 3 SE of the printed figure, whose own SE is taken to be like ours.",
        ),
        paragraph(
            "**Why the printed rates are lower than theory says.** A copy is what its annotator explains plus noise, "
            "Q in the paper, orthonormal to everybody's columns. The package of its time completes the basis by "
            "Householder reflections, so that Q is nearly the answers m + 1 to 2m themselves: those of the second and "
            "third annotator, who judge. A uniformly random Q has the noise of everybody pooled, which the leaning "
            "make smaller than that of the honest: their rate rises with p2. Noise from these rows "
            f'(`KnockoffLBI(construction="paper", complement="householder", draws=1)`) gives {within} of {len(known)} '
            "printed rates within 3 SE. It holds because of where the rows lie; our two-pass variance does not "
            "depend on that."
        ),
        "**Table 1 and 2. Share of false flags**",
        table(head, _study_rows(results, "fdp")),
        "**Table 1 and 2. True finds, of 50**",
        table(head, _study_rows(results, "found")),
        figure("paper.svg", "Share of false flags in the sixteen cells, printed and here; the line is q."),
    ]


def _study_rows(results: Results, what: str) -> list[list[str]]:
    cells = {(cell.p1, cell.p2, cell.path): cell for cell in printed_cells(results)}
    rows = []
    for p1 in ERRORS:
        for p2 in CLICKS:
            a, b = round(100 * p1), round(100 * p2)
            beside = [cells.get((a, b, path)) for path in ("iss T0, rows", "lasso T0, rows")]
            texts = [_printed(cell, what) for cell in beside]
            paper, exact = results.get(f"paper-{a}-{b}"), results.get(f"exact-{a}-{b}")
            for method in COLUMNS:
                values = paper["methods"][method][what] if paper else []
                texts.append(_measured(values, cells.get((a, b, method)), what))
            texts.append(_measured(exact["methods"]["exact"][what] if exact else [], None, what))
            rows.append([f"{a} %, {b} %", *texts])
    return rows


def _printed(cell: PrintedCell | None, what: str) -> str:
    if cell is None:
        return "not at hand"
    return f"{cell.fdr:.3f}" if what == "fdp" else f"{cell.found:.2f}"


def _measured(values: list[float], cell: PrintedCell | None, what: str) -> str:
    if not values:
        return NOT_RUN
    if what == "found":
        return mean(values)
    text = f"{np.mean(values):.3f} ± {np.std(values) / np.sqrt(len(values)):.3f}"
    return f"**{text}**" if cell and cell.ours and cell.ours.is_enough and abs(cell.gap) > 3 else text


def sets(results: Results) -> list[str]:
    """The paper's real sets."""
    parts = ["## The paper's real data"]
    for name in PAPERS:
        result = results.get(f"printed-{name}")
        if not result:
            parts.append(f"{TITLES[name]}: not run (the data folder, `EVENHAND_DATA`, has no `{name}`).")
            continue
        parts += [
            f"### {TITLES[name]}",
            _found(result),
            table(_ENTRY_HEAD, [_entry(row) for row in result["rows"]]),
            figure(
                f"{name}-path.png", f"{TITLES[name]}: bias of every annotator along the path (the paper's Figure 1)."
            ),
            figure(
                f"{name}-scatter.svg", f"{TITLES[name]}: left against right clicks (the paper's Figure 2), log scales."
            ),
            *(_rankings(result["ranking"]) if result["ranking"] else ()),
        ]
    return [*parts, *_reading_level()]


_ENTRY_HEAD = ("annotator", "clicks, left : right", "printed", "ISS", "LBI", "LASSO", "adjusted p", "we say")


def _entry(row: dict[str, Any]) -> list[str]:
    printed_clicks = "as here" if row["printed"] == [row["left"], row["right"]] else "{} : {}".format(*row["printed"])
    q_value = "not judged" if row["q_value"] is None else f"{row['q_value']:.2g}"
    ranks = [str(row["ranks"][path]) for path in ("iss", "lbi", "lasso")]
    return [str(row["annotator"]), f"{row['left']} : {row['right']}", printed_clicks, *ranks, q_value, row["finding"]]


def _found(result: dict[str, Any]) -> str:
    listed, flagged = set(result["printed"]), set(result["flagged"])
    k, sizes = len(listed), result["sizes"]
    first = ", ".join(f"{count} by {path.upper()}" for path, count in result["first"].items())
    peers = ", ".join(
        f"{NAMES[name]} {len(set(found))} ({len(listed & set(found))} of the {k})"
        for name, found in result["peers"].items()
    )
    return paragraph(
        f"{result['answers']:,} answers of {result['annotators']} people on {result['items']} items.",
        f"The paper lists {k}. Among the first {k} to enter the path, everybody judged as in the paper, are "
        f"{first} of them; "
        "the columns ISS, LBI and LASSO give each one's place.",
        f"How long a list gets is a lottery per draw: {len(sizes)} single draws (plain cut, no smallest bias) select "
        f"{min(sizes)} to {max(sizes)} people, {min(result['outside'])} to {max(result['outside'])} of them "
        f"not among the {k}.",
        f"The exact list ({WAYS[result['how']]}; {result['assessable']} can be judged) has {len(flagged)}: "
        f"{len(listed & flagged)} of the {k} and {len(flagged - listed)} others; knockoff LBI beside it "
        f"{len(result['lbi'])}.",
        f"By hand: {peers}.",
    )


def _rankings(result: dict[str, Any]) -> list[str]:
    rows = [[name, f"{count} of {result['pairs']}"] for name, count in result["right"].items()]
    return [
        paragraph(
            "**Rankings (Tables 4 and 5).** Kendall's tau of our least squares with the printed ranking: original "
            f"{result['tau']['original']:.3f}, corrected for the same annotators {result['tau']['corrected']:.3f}.",
            "Pairs of the images whose true order Table 5 gives that stand in the right order:",
        ),
        table(("ranking", "pairs right"), rows),
    ]


def _reading_level() -> list[str]:
    frame = printed("paper_tables/table6_reading_level.csv")
    if frame.empty:
        return []
    rows = [[str(row.annotator), f"{row.left} : {row.right}"] for row in frame.itertuples()]
    note = "Public copies of its answers name winner and loser without sides, so nothing can be computed; as printed:"
    return ["### Reading Level (Table 6)", note, table(("annotator", "clicks, left : right"), rows)]


def others(results: Results) -> list[str]:
    """The other real sets."""
    rows, notes = [], []
    for name in OTHERS:
        result = results.get(f"real-{name}")
        if not result:
            rows.append([name, *[NOT_RUN] * 7])
            continue
        sizes = [
            f"{result['answers']:,}",
            f"{result['annotators']:,} ({result['assessable']:,})",
            f"{result['items']:,}",
        ]
        flagged = [str(len(result["flagged"])), str(len(result["lbi"])), str(len(result["peers"]["binomial"]))]
        rows.append([name, *sizes, WAYS[result["how"]], *flagged])
        notes += [f"**{name}** {_DESCRIPTION[name]}", _people(result), paragraph(*result["reasons"])]
    head = ("set", "answers", "annotators (judged)", "items", "judged", "exact list", "knockoff LBI", NAMES["binomial"])
    return ["## Other real data", table(head, rows), *notes]


_DESCRIPTION = {
    "llmfao": "(crowd workers beside GPT-3.5 and GPT-4 as judges, in one table)",
    "ukpconvarg1": "(a crowd that was cleaned before release: next to nobody should be flagged)",
    "alpaca_eval_judges": "(six LLM judges, graded answers where they gave probabilities; the instruction is the coin)",
    "pandalm": "(sides fixed by model: nobody can be judged, and a tool must say so)",
}


def _people(result: dict[str, Any]) -> str:
    if not result["rows"]:
        return "Nobody is flagged."
    rows = [
        [
            str(row["annotator"]),
            str(row["comparisons"]),
            f"{row['bias']:+.2f} ({row['bias_low']:+.2f} to {row['bias_high']:+.2f})",
            _known(row["q_value"], ".2g"),
            _known(row["lbi_share"], ".0%"),
            row["finding"],
        ]
        for row in result["rows"]
    ]
    return table(("annotator", "answers", "bias (95 %)", "adjusted p", "LBI draws", "finding"), rows)


def _known(value: float | None, form: str) -> str:
    return "" if value is None or math.isnan(value) else f"{value:{form}}"
