"""The figures of docs/results.md: small, calm, and readable without colour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.evidence.paper_tables import CLICKS, ERRORS
from benchmarks.evidence.scenarios import LARGE, SMALL, Q
from benchmarks.evidence.speed import SIZES
from benchmarks.evidence.summary import Evidence
from fdr_core.plot import LOOKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY, BLUE, ORANGE, GREEN, RED = "#999999", "#0072B2", "#E69F00", "#009E73", "#D55E00"
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "svg.hashsalt": "evenhand",
    "svg.fonttype": "none",
}


def draw_all(evidence: Evidence, folder: Path) -> list[str]:
    """Draw what the stored cells allow; return the names of the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    names = []
    with matplotlib.rc_context(STYLE):
        for name, (draw, size) in FIGURES.items():
            figure, axes = pyplot.subplots(figsize=size, layout="constrained")
            if draw(evidence, axes):
                options = {"metadata": {"Date": None}} if name.endswith(".svg") else {"dpi": 110}
                figure.savefig(folder / name, **options)
                names.append(name)
            pyplot.close(figure)
    return names


def _paper(evidence: Evidence, axes: Axes) -> bool:
    """FDR in the sixteen cells of the paper's study."""
    labels = [f"{100 * p1:.0f}-{100 * p2:.0f}" for p1 in ERRORS for p2 in CLICKS]
    series = (
        ("paper", "iss T0", "the paper's, T0", RED, "^"),
        ("paper", "iss T1", "the paper's, T1", ORANGE, "s"),
        ("flips", "flip", "flips, one draw", BLUE, "o"),
        ("flips", "evenhand", "Evenhand", GREEN, "D"),
    )
    drawn = False
    for kind, method, label, colour, marker in series:
        points = [(k, evidence.get(f"{kind}-{name}")) for k, name in enumerate(labels)]
        points = [(k, np.mean(result["methods"][method]["fdp"])) for k, result in points if result]
        if points:
            axes.plot(*zip(*points, strict=True), marker, color=colour, label=label, markersize=5)
            drawn = True
    axes.axhline(Q, color="#000000", linewidth=0.8)
    axes.set_xticks(range(len(labels)), [name.replace("-", "\n") for name in labels])
    axes.set(xlabel="p1 above p2, in %", ylabel="share of false flags", ylim=(0, None))
    if drawn:
        axes.legend(frameon=False, ncols=4, loc="lower center")
    return drawn


def _path(evidence: Evidence, axes: Axes) -> bool:
    """The regularisation path of WorldCollege (the paper's Figure 1)."""
    result = evidence.get("real-worldcollege")
    if not result:
        return False
    from matplotlib.collections import LineCollection

    path = result["path"]
    for name, look in LOOKS.items():
        lines = [
            np.column_stack([path["times"], gamma])
            for gamma, verdict in zip(path["gamma"], path["verdict"], strict=True)
            if verdict == name
        ]
        if lines:
            label = f"{_WORDS[name]} ({len(lines)})"
            style: dict[str, Any] = {"colors": look.colour, "linestyles": look.line, "linewidths": 0.8 * look.width}
            axes.add_collection(LineCollection(lines, label=label, **style))
    axes.autoscale_view()
    axes.set(xscale="log", xlabel="path, log scale", ylabel="bias: left above, right below")
    axes.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return True


def _scatter(evidence: Evidence, axes: Axes) -> bool:
    """Left against right clicks (the paper's Figure 2)."""
    result = evidence.get("real-worldcollege")
    if not result:
        return False
    for name, look in LOOKS.items():
        points = [(left, right) for left, right, verdict in result["scatter"] if verdict == name]
        if points:
            label = f"{_WORDS[name]} ({len(points)})"
            left, right = np.array(points).T + 0.5
            axes.scatter(left, right, s=14, c=look.colour, marker=look.marker, alpha=0.8, label=label)
    axes.plot([0.5, 600], [0.5, 600], color="#000000", linewidth=0.6)
    axes.set(xscale="log", yscale="log", xlabel="left clicks + ½", ylabel="right clicks + ½")
    axes.legend(frameon=False, fontsize=8)
    return True


_WORDS = {
    "bad": "always one side",
    "ugly": "leans to one side",
    "good": "no lean found",
    "not assessable": "too few answers",
}


def _power(evidence: Evidence, axes: Axes) -> bool:
    """Power by scenario: Evenhand, peers, oracle; hollow where the error rate does not hold."""
    scenarios = [scenario for scenario in (*LARGE, *SMALL) if scenario.name != "team-null"]
    series = (
        ("oracle", "oracle", GREY, "_"),
        ("binomial", "binomial + BH", ORANGE, "v"),
        ("glm", "logistic GLM + BH", BLUE, "s"),
        ("paper", "the paper's, knockoff+", RED, "^"),
        ("evenhand", "Evenhand", GREEN, "D"),
    )
    drawn = False
    for method, label, colour, marker in series:
        rates = [(k, evidence.rate(scenario.name, method)) for k, scenario in enumerate(scenarios)]
        known = [(k, rate) for k, rate in rates if rate and not rate.reason]
        for k, rate in known:
            face = colour if rate.holds or method == "oracle" else "none"
            size = 14 if method == "oracle" else 6
            axes.plot(k, rate.mean_power, marker, color=colour, markerfacecolor=face, markersize=size)
        if known:
            axes.plot([], [], marker, color=colour, label=label)
            drawn = True
    axes.set_xticks(range(len(scenarios)), [scenario.name.replace("-", "\n", 1) for scenario in scenarios])
    axes.set(ylabel="share of the leaning found", ylim=(-0.03, 1.03))
    if drawn:
        axes.legend(frameon=False, ncols=5, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return drawn


def _speed(evidence: Evidence, axes: Axes) -> bool:
    """Seconds by number of annotators."""
    series = (
        ("knockpy", "knockpy, one draw", RED, "^"),
        ("paper-dense", "the paper's, dense, one draw", ORANGE, "s"),
        ("noisy-bt", "NoisyBradleyTerry", GREY, "x"),
        ("evenhand", "Evenhand, all draws", GREEN, "D"),
        ("paper-draw", "the paper's, from statistics, one draw", BLUE, "o"),
    )
    drawn = False
    for method, label, colour, marker in series:
        points = [(m, evidence.get(f"speed-{m}-{method}")) for m in SIZES]
        points = [(m, result["seconds"]) for m, result in points if result and "seconds" in result]
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, color=colour, label=label, linewidth=1.2)
            drawn = True
    axes.set(xscale="log", yscale="log", xlabel="annotators (30 answers each)", ylabel="seconds")
    if drawn:
        axes.legend(frameon=False, fontsize=8)
    return drawn


FIGURES: dict[str, tuple[Callable[[Evidence, Any], bool], tuple[float, float]]] = {
    "paper.svg": (_paper, (7.2, 3.2)),
    "worldcollege-path.png": (_path, (6.4, 3.8)),
    "worldcollege-scatter.svg": (_scatter, (4.6, 4.2)),
    "power.svg": (_power, (8.0, 3.8)),
    "speed.svg": (_speed, (5.6, 3.6)),
}
