"""Figures of a detection: the regularisation path, left against right clicks, and the ranking before and after.

Needs matplotlib: `pip install "evenhand[plot]"`. Colours are Okabe and Ito's, and every group has its own line or
marker as well, so that nothing depends on colour alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core.errors import ConfigurationError, MissingExtraError
from fdr_core.findings import ALWAYS_LEFT, ALWAYS_RIGHT, LEANS_LEFT, LEANS_RIGHT, NONE_SEEN, PARTS, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ITEMS = 40


@dataclass(frozen=True)
class Look:
    """How one group of findings is drawn; later groups lie on top."""

    colour: str
    line: str
    marker: str
    width: float


LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "not certain": Look("#999999", ":", "x", 0.8),
        "not flagged": Look("#56B4E9", "-", "o", 0.8),
        "leans": Look("#E69F00", "--", "s", 1.6),
        "always one side": Look("#D55E00", "-", "^", 2.0),
    }
)
#: The group in which each finding is drawn.
GROUPS: Mapping[str, str] = MappingProxyType(
    {
        ALWAYS_LEFT: "always one side",
        ALWAYS_RIGHT: "always one side",
        LEANS_LEFT: "leans",
        LEANS_RIGHT: "leans",
        **{f"{lean}{part}": "leans" for lean in (LEANS_LEFT, LEANS_RIGHT) for part in PARTS[1:]},
        SMALL: "not flagged",
        NONE_SEEN: "not flagged",
    }
)


class DrawablePath(Protocol):
    """The part of a path that is drawn: bias of each annotator along the path."""

    @property
    def times(self) -> NDArray[np.float64]: ...
    @property
    def gamma(self) -> NDArray[np.float64]: ...
    @property
    def annotators(self) -> Any: ...


class HasPath(Protocol):
    """The part of knockoff LBI that is drawn."""

    @property
    def path(self) -> DrawablePath: ...


class Drawable(Protocol):
    """The part of a Detection that is drawn."""

    @property
    def annotators(self) -> pd.DataFrame: ...
    @property
    def ranking(self) -> pd.DataFrame: ...
    @property
    def lbi(self) -> "HasPath": ...


def path(detection: Drawable, *, ax: "Axes | None" = None) -> "Axes":
    """
    Draw each annotator's bias along the regularisation path (figure 1 of the paper).

    Parameters
    ----------
    detection : Detection
        The result of `detect`.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Raises
    ------
    ConfigurationError
        Where the detection recorded no path.
    """
    if np.size(detection.lbi.path.times) == 0:
        raise ConfigurationError(
            "this result has no path to draw: it is recorded for up to 2,000 assessable annotators, and neither for "
            'draws=0 nor for path="marginal"; run detect with path="lbi", and see result.audit.reasons'
        )
    record = detection.lbi.path
    axes = _axes(ax)
    finding_of = dict(zip(detection.annotators["annotator"], detection.annotators["finding"], strict=True))
    groups = np.array([group(finding_of.get(label)) for label in record.annotators], dtype=object)
    gamma = np.asarray(record.gamma)
    for name, look in LOOKS.items():
        columns = np.flatnonzero(groups == name)
        if columns.size:
            _lines(axes, np.asarray(record.times), gamma[:, columns], look, f"{name} ({columns.size})")
    axes.axhline(0.0, color="#000000", linewidth=0.6)
    axes.set(xlabel="path", ylabel="bias (left above, right below)", title="Who enters first")
    axes.autoscale_view()
    axes.legend(frameon=False)
    return axes


def scatter(detection: Drawable, *, ax: "Axes | None" = None) -> "Axes":
    """
    Draw each annotator's left clicks against right clicks (figure 2 of the paper).

    Parameters
    ----------
    detection : Detection
        The result of `detect`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    axes = _axes(ax)
    table = detection.annotators
    groups = table["finding"].map(group)
    for name, look in LOOKS.items():
        part = table[groups == name]
        if len(part):
            label = f"{name} ({len(part)})"
            axes.scatter(part["left"], part["right"], s=24, c=look.colour, marker=look.marker, alpha=0.8, label=label)
    most = float(max(table["left"].max(), table["right"].max(), 1))
    axes.plot([0, most], [0, most], color="#000000", linewidth=0.6)
    axes.set(xlabel="left clicks", ylabel="right clicks", title="Left against right", aspect="equal")
    axes.legend(frameon=False)
    return axes


def ranking(detection: Drawable, *, ax: "Axes | None" = None, most: int = MOST_ITEMS) -> "Axes":
    """
    Draw item scores before and after the correction, with two standard errors.

    Parameters
    ----------
    detection : Detection
        The result of `detect`.
    ax : Axes, optional
        Where to draw; a new figure by default.
    most : int
        How many of the best items are shown.
    """
    if most < 1:
        raise ConfigurationError(f"most is {most}; expected at least 1")
    table = detection.ranking.sort_values("rank", kind="stable").head(most)
    axes = _axes(ax, height=1.5 + 0.22 * len(table))
    y = np.arange(len(table))
    raw, score = table["raw_score"].to_numpy(), table["score"].to_numpy()
    axes.hlines(y, np.minimum(raw, score), np.maximum(raw, score), color="#999999", linewidth=1.0)
    axes.errorbar(score, y, xerr=2 * table["se"].to_numpy(), fmt="o", color="#0072B2", capsize=2, label="corrected")
    axes.scatter(raw, y, marker="D", s=22, facecolors="none", edgecolors="#D55E00", label="as answered", zorder=3)
    axes.set_yticks(y, [_shortened(item) for item in table["item"]])
    axes.invert_yaxis()
    shown = f", best {len(table)} of {len(detection.ranking)}" if len(table) < len(detection.ranking) else ""
    axes.set(xlabel="score", title=f"Ranking before and after correction{shown}")
    axes.legend(frameon=False)
    return axes


def _axes(ax: "Axes | None", *, height: float = 5.0) -> "Axes":
    """Take the given axes or open a figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError('plots need matplotlib; install it with: pip install "evenhand[plot]"') from error
    return pyplot.subplots(figsize=(7.0, height), layout="constrained")[1]


def _lines(axes: "Axes", times: NDArray[np.float64], gamma: NDArray[np.float64], look: Look, label: str) -> None:
    """Draw many lines as one collection: thousands of single lines would take minutes."""
    from matplotlib.collections import LineCollection

    segments = [np.column_stack([times, column]) for column in gamma.T]
    lines = LineCollection(segments, colors=look.colour, linestyles=look.line, linewidths=look.width, label=label)
    axes.add_collection(lines)


def group(finding: object) -> str:
    """The group in which a finding is drawn."""
    return GROUPS.get(str(finding), "not certain")


def _shortened(item: object, *, most: int = 32) -> str:
    """Shorten a label, and keep dollar signs from being read as formulas."""
    text = str(item)
    return (text if len(text) <= most else text[: most - 1] + "…").replace("$", r"\$")
