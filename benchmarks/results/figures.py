"""The figures of docs/results/: small, calm, and readable without colour."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.results.claims import printed_cells
from benchmarks.results.paper_tables import CLICKS, ERRORS
from benchmarks.results.real_data import PAPERS
from benchmarks.results.summary import Results
from fdr_core.plot import LOOKS, group
from harness.scenarios import Q

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY, BLUE, ORANGE, GREEN, RED = "#999999", "#0072B2", "#E69F00", "#009E73", "#D55E00"
STYLE: Any = {
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


def draw_all(results: Results, folder: Path) -> list[str]:
    """Draw what the stored cells allow; return the names of the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    names = []
    with matplotlib.rc_context(STYLE):
        for name, (draw, size) in FIGURES.items():
            figure, axes = pyplot.subplots(figsize=size, layout="constrained")
            if draw(results, axes):
                options = {"metadata": {"Date": None}} if name.endswith(".svg") else {"dpi": 110}
                figure.savefig(folder / name, **options)
                names.append(name)
            pyplot.close(figure)
    return names


def _paper(results: Results, axes: Axes) -> bool:
    """FDR in the sixteen cells of the paper's study, printed and here."""
    cells = printed_cells(results)
    labels = [(round(100 * p1), round(100 * p2)) for p1 in ERRORS for p2 in CLICKS]
    place = {label: k for k, label in enumerate(labels)}
    for path, marker in (("iss T0, rows", "x"), ("lasso T0, rows", "+")):
        points = [(place[cell.p1, cell.p2], cell.fdr) for cell in cells if cell.path == path]
        _points(axes, points, marker, GREY, f"printed, {path.split()[0].upper()}")
    series = (
        ("paper", "iss T0", "ISS, random noise", RED, "^"),
        ("paper", "iss T0, rows", "ISS, noise from rows", BLUE, "o"),
        ("paper", "two-pass T0", "ISS, two-pass", ORANGE, "s"),
    )
    for kind, method, label, colour, marker in (*series, ("exact", "exact", "exact list", GREEN, "D")):
        rates = results.study_rates(kind, method)
        found = [(k, rates.get(f"{kind}-{a}-{b}")) for (a, b), k in place.items()]
        _points(axes, [(k, rate.fdr) for k, rate in found if rate], marker, colour, label)
    axes.axhline(Q, color="#000000", linewidth=0.8)
    axes.set_xticks(range(len(labels)), [f"{a}\n{b}" for a, b in labels])
    axes.set(xlabel="p1 above p2, in %", ylabel="share of false flags", ylim=(0, None))
    return _legend(axes, ncols=5, loc="lower center")


def _points(axes: Axes, points: list[tuple[int, float]], marker: str, colour: str, label: str) -> None:
    if points:
        axes.plot(*zip(*points, strict=True), marker, color=colour, label=label, markersize=5)


def _legend(axes: Axes, **options: Any) -> bool:
    """Add a legend where something was drawn, and say whether."""
    drawn = bool(axes.get_legend_handles_labels()[0])
    if drawn:
        axes.legend(frameon=False, fontsize=8, **options)
    return drawn


def _path(results: Results, axes: Axes, *, name: str) -> bool:
    """The regularisation path of a set (the paper's Figure 1)."""
    result = results.get(f"printed-{name}")
    if not result:
        return False
    from matplotlib.collections import LineCollection

    path = result["path"]
    for kind, look in LOOKS.items():
        lines = [
            np.column_stack([path["times"], gamma])
            for gamma, finding in zip(path["gamma"], path["finding"], strict=True)
            if group(finding) == kind
        ]
        if lines:
            label = f"{kind} ({len(lines)})"
            style: dict[str, Any] = {"colors": look.colour, "linestyles": look.line, "linewidths": 0.8 * look.width}
            axes.add_collection(LineCollection(lines, label=label, **style))
    axes.autoscale_view()
    axes.set(xscale="log", xlabel="path, log scale", ylabel="bias: left above, right below")
    axes.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return True


def _scatter(results: Results, axes: Axes, *, name: str) -> bool:
    """Left against right clicks (the paper's Figure 2)."""
    result = results.get(f"printed-{name}")
    if not result:
        return False
    for kind, look in LOOKS.items():
        points = [(left, right) for left, right, finding in result["scatter"] if group(finding) == kind]
        if points:
            label = f"{kind} ({len(points)})"
            left, right = np.array(points).T + 0.5
            axes.scatter(left, right, s=14, c=look.colour, marker=look.marker, alpha=0.8, label=label)
    axes.plot([0.5, 600], [0.5, 600], color="#000000", linewidth=0.6)
    axes.set(xscale="log", yscale="log", xlabel="left clicks + ½", ylabel="right clicks + ½")
    axes.legend(frameon=False, fontsize=8)
    return True


FIGURES: dict[str, tuple[Callable[[Results, Any], bool], tuple[float, float]]] = {
    "paper.svg": (_paper, (7.2, 3.2)),
    **{f"{name}-path.png": (partial(_path, name=name), (6.4, 3.8)) for name in PAPERS},
    **{f"{name}-scatter.svg": (partial(_scatter, name=name), (4.6, 4.2)) for name in PAPERS},
}
