"""The sections on the paper's simulated study and on real data."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.evidence.markdown import NOT_RUN, figure, mean, paragraph, table
from benchmarks.evidence.paper_tables import CLICKS, ERRORS
from benchmarks.evidence.real_data import SETS
from benchmarks.evidence.scenarios import Q
from benchmarks.evidence.summary import Evidence
from benchmarks.evidence.verdicts import PRINTED_FDR

COLUMNS = ("iss T0", "lbi T0", "lasso T0", "iss T1", "lbi T1", "lasso T1")
HEAD = ("p1", "p2", *(name.upper() for name in COLUMNS), "flips, one draw", "Evenhand")


def study(evidence: Evidence) -> list[str]:
    """Tables 1 and 2 of the paper."""
    fdr, finds = _cells(evidence, "fdp"), _cells(evidence, "found")
    rates, found = (
        [
            [f"{100 * p1:.0f} %", f"{100 * p2:.0f} %", *(mean(values, digits) for values in row)]
            for (p1, p2), row in cells.items()
        ]
        for cells, digits in ((fdr, 3), (finds, 2))
    )
    size = evidence.size
    return [
        "## The paper's simulated study",
        paragraph(
            "16 items, every pair answered once by each of 150 annotators: 100 err with probability p1, 50 click a side "
            "of their own with probability p2 and otherwise err with p1.",
            f"q = {Q}, {size.paper} data sets a cell ({size.paper_default} for Evenhand's default of many draws).",
            "One knockoff draw per data set, shared by the three paths and by both cuts (T0 knockoff, T1 knockoff+).",
        ),
        "**Table 1. Share of false flags**",
        table(HEAD, rates),
        "**Table 2. True finds, of 50**",
        table(HEAD, found),
        figure("paper.svg", "Share of false flags in the sixteen cells; the line is q."),
        _agreement(fdr, finds),
    ]


def _cells(evidence: Evidence, what: str) -> dict[tuple[float, float], list[list[float]]]:
    """Values per cell and column; empty lists where a cell was not computed."""
    cells = {}
    for p1 in ERRORS:
        for p2 in CLICKS:
            name = f"{100 * p1:.0f}-{100 * p2:.0f}"
            paper, flips = evidence.get(f"paper-{name}"), evidence.get(f"flips-{name}")
            row = [paper["methods"][method][what] if paper else [] for method in COLUMNS]
            row += [flips["methods"][method][what] if flips else [] for method in ("flip", "evenhand")]
            cells[p1, p2] = row
    return cells


def _agreement(fdr: dict[Any, list[list[float]]], finds: dict[Any, list[list[float]]]) -> str:
    """What agrees with the paper and what does not."""
    known = [row for row in fdr.values() if all(row)]
    if not known:
        return NOT_RUN
    means = np.array([[np.mean(values) for values in row] for row in known])
    errors = np.array([[np.std(values) / np.sqrt(len(values)) for values in row] for row in known])
    found = np.array([[np.mean(values) for values in row] for row in finds.values() if all(row)])
    low, high = PRINTED_FDR
    t0, t1, flip = means[:, :3], means[:, 3:6], means[:, 6]
    spread = float(np.abs(t0 - t0.mean(axis=1, keepdims=True)).max())
    last = [k for k, (_, p2) in enumerate(key for key, row in fdr.items() if all(row)) if p2 == max(CLICKS)]
    within = int(((t0[:, 0] >= low - 3 * errors[:, 0]) & (t0[:, 0] <= high + 3 * errors[:, 0])).sum())
    beyond = int((means[:, 3] > Q + 3 * errors[:, 3]).sum())
    flips_hold = int((flip <= Q + 3 * np.maximum(errors[:, 6], 0.002)).sum())
    return paragraph(
        f"**What agrees.** Practically all of the 50 are found: {found[:, :3].min():.2f} to {found[:, :3].max():.2f} "
        f"under T0. ISS, LBI and LASSO select alike: their rates differ by at most {2 * spread:.3f}.",
        f"The paper prints an actual FDR of {low} to {high} under T0 over the sixteen cells; here ISS under T0 lies "
        f"between {t0[:, 0].min():.3f} and {t0[:, 0].max():.3f}, in {within} of {len(known)} cells inside that range "
        "give or take three standard errors.",
        "(The printed figure of each single cell is not at hand, so only the range stands beside ours.)",
        "**What does not.** knockoff+ (T1) has a theorem for equal Gaussian noise; annotators who click one side have "
        f"less noise, and its rate exceeds q by more than three standard errors in {beyond} of {len(known)} cells"
        + (f", {t1[last].mean():.3f} on average at p2 = {100 * max(CLICKS):.0f} %." if last else "."),
        f"Flips need no noise model: {flip.min():.3f} to {flip.max():.3f}, at most q + 3 SE in {flips_hold} of "
        f"{len(known)} cells, with {found[:, 6].min():.2f} to {found[:, 6].max():.2f} true finds.",
    )


def worldcollege(evidence: Evidence) -> list[str]:
    """The paper's real data."""
    head = "## The paper's real data"
    absent = paragraph(
        "The paper's other sets, Human Age, Reading Level and IQA, are not in the data folder (`EVENHAND_DATA`), and "
        "their printed figures are not at hand; nothing is claimed about them."
    )
    result = evidence.get("real-worldcollege")
    if not result:
        return [head, "WorldCollege: not run (the data folder, `EVENHAND_DATA`, has no `worldcollege`).", absent]
    return [
        head,
        _found(result),
        "**Table 8 of the paper beside our draws** (share of draws that select the annotator)",
        table(
            ("annotator", "left", "right", "match ratio", "paper's method", "Evenhand", "bias", "flagged"),
            [_table8_row(row) for row in result["table"]],
        ),
        figure("worldcollege-path.png", "WorldCollege: bias of every annotator along the path (the paper's Figure 1)."),
        figure(
            "worldcollege-scatter.svg", "WorldCollege: left against right clicks (the paper's Figure 2), log scales."
        ),
        *_ratio(result),
        *_ranking(result),
        absent,
    ]


def _found(result: dict[str, Any]) -> str:
    known, flagged, papers = set(result["paper_36"]), set(result["flagged"]), set(result["paper_flagged"])
    sizes, others = result["single_sizes"], result["single_others"]
    peers = ", ".join(
        f"{_PEER[name]} {found['flagged']} ({found['paper']} of the 36)" for name, found in result["peers"].items()
    )
    return paragraph(
        f"WorldCollege: {result['answers']:,} answers of {result['annotators']} people on {result['items']} "
        f"universities; {result['assessable']} have enough answers to be judged.",
        f"The audit: {result['reasons'][-1]}",
        f"The paper selected {len(known)} (Table 8, q = {Q}, T0). Its method with {result['draws']} draws and a majority "
        f"finds {len(known & papers)} of them and {len(papers - known)} others; single draws select "
        f"{min(sizes)} to {max(sizes)} people, with at most {max(others)} from outside the {len(known)}: a single "
        "draw's length is a lottery, its order is not.",
        f"Evenhand flags {len(flagged)}: {len(known & flagged)} of the {len(known)} and {len(flagged - known)} others; "
        f"{result['one_side']} of the flagged always clicked one side. Two seeds agree to a Jaccard index of "
        f"{result['jaccard']:.3f}.",
        f"For comparison: {peers}.",
    )


_PEER = {"binomial": "binomial + BH", "glm": "logistic GLM + BH"}
_VERDICT = {"bad": "always one side", "ugly": "leans", "good": "no lean found", "not assessable": "too few answers"}


def _table8_row(row: dict[str, Any]) -> list[str]:
    shares = [f"{100 * row[key]:.0f} %" for key in ("paper_share", "share")]
    clicks = [str(row["annotator"]), str(row["left"]), str(row["right"])]
    return [*clicks, f"{row['match']:.2f}", *shares, f"{row['bias']:+.2f}", _VERDICT[row["verdict"]]]


def _ratio(result: dict[str, Any]) -> list[str]:
    rows, known, flagged = result["ratio"], len(result["paper_36"]), len(result["flagged"])
    milder = [row for row in result["table"] if max(row["left"], row["right"]) < 0.6 * (row["left"] + row["right"])]
    example = ""
    if milder:
        row = max(milder, key=lambda row: row["left"] + row["right"])
        example = (
            f"Annotator {row['annotator']} clicked left {row['left']} and right {row['right']} times: far from any "
            "threshold, and among the paper's, for many answers make a mild lean certain; "
            + ("Evenhand flags it too." if row["annotator"] in result["flagged"] else "Evenhand leaves it out.")
        )
    low = rows[0]
    return [
        "**Why a threshold on the share of the favoured side is not enough**",
        table(
            ("favoured side at least", "people", "of the paper's", "of ours", "with fewer than 5 answers"),
            [
                [
                    f"{100 * row['share']:.0f} %",
                    str(row["flagged"]),
                    f"{row['paper']} of {known}",
                    f"{row['ours']} of {flagged}",
                    str(row["few"]),
                ]
                for row in rows
            ],
        ),
        paragraph(
            f"At 60 % the threshold names {low['flagged']} people to catch {low['paper']} of the {known}; at 100 % it "
            f"names {rows[-1]['flagged']}, of whom {rows[-1]['few']} gave fewer than five answers, and misses "
            f"{known - rows[-1]['paper']}.",
            f"At 80 % it accuses {rows[2]['accused']} people with five answers or more whom Evenhand does not flag, and "
            f"who agree with the consensus in {100 * rows[2]['match']:.0f} % of their answers: with few answers, chance "
            "and the items explain an uneven count.",
            example,
        ),
    ]


def _ranking(result: dict[str, Any]) -> list[str]:
    ranking = result["ranking"]
    return [
        "**Ranking, original and corrected** (best 20)",
        table(
            ("item", "corrected rank", "rank interval", "score (SE)", "original rank", "original score"),
            [
                [
                    str(row["item"]),
                    str(row["rank"]),
                    f"{row['rank_low']} to {row['rank_high']}",
                    f"{row['score']:.2f} ({row['se']:.2f})",
                    str(row["raw_rank"]),
                    f"{row['raw_score']:.2f}",
                ]
                for row in ranking["top"]
            ],
        ),
        paragraph(
            f"The correction moves {ranking['moved']} of {result['items']} items, one of them by "
            f"{ranking['largest_move']} places, and turns {ranking['turned_pairs']} pairs; Kendall's tau between the two "
            f"rankings is {ranking['tau']:.3f}."
        ),
    ]


def others(evidence: Evidence) -> list[str]:
    """The other real sets."""
    parts = ["## Other real data"]
    rows, notes = [], []
    for name in SETS[1:]:
        result = evidence.get(f"real-{name}")
        if not result:
            rows.append([name, *[NOT_RUN] * 7])
            continue
        rows.append(
            [
                name,
                f"{result['answers']:,}",
                f"{result['annotators']:,} ({result['assessable']:,})",
                f"{result['items']:,}",
                {"flip": "flips", "paper": "the paper's", "none": "none"}[result["construction"]],
                str(len(result["flagged"])),
                str(result["peers"]["binomial"]["flagged"]),
                f"{result['jaccard']:.3f}",
            ]
        )
        notes += [f"**{name}** {_DESCRIPTION[name]}", _people(result), paragraph(*result["reasons"])]
    head = (
        "set",
        "answers",
        "annotators (assessable)",
        "items",
        "judged by",
        "flagged",
        "binomial + BH",
        "two seeds agree",
    )
    small = paragraph(
        'Selected in most draws and yet "no lean found" means: a lean so small (below .1 by default) that it is of no '
        "interest, however certain."
    )
    return [*parts, table(head, rows), small, *notes]


_DESCRIPTION = {
    "llmfao": "(crowd workers beside GPT-3.5 and GPT-4 as judges, in one table)",
    "ukpconvarg1": "(a crowd that was cleaned before release: next to nobody should be flagged)",
    "alpaca_eval_judges": "(six LLM judges, graded answers where they gave probabilities; the instruction is the coin)",
}


def _people(result: dict[str, Any]) -> str:
    if not result["rows"]:
        return "Nobody is flagged."
    rows = [
        [
            str(row["annotator"]),
            str(row["comparisons"]),
            f"{row['bias']:+.2f} ({row['bias_low']:+.2f} to {row['bias_high']:+.2f})",
            f"{100 * row['draw_share']:.0f} %",
            _VERDICT[row["verdict"]],
        ]
        for row in result["rows"]
    ]
    return table(("annotator", "answers", "bias (95 %)", "draws", "verdict"), rows)
