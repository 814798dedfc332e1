"""Figures: what is drawn, for whom, and that labels cannot break them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from fdr_core import KnockoffLBI, detect, plot
from fdr_core.errors import ConfigurationError
from fdr_core.findings import FINDINGS
from fdr_core.simulate import small_team


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[Any]:
    mpl.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def table() -> pd.DataFrame:
    """Four annotators, one of each group of findings."""
    finding = ["left side only", "leans left", "no lean seen", "not assessable"]
    return pd.DataFrame(
        {"annotator": list("abcd"), "left": [40, 30, 20, 1], "right": [0, 10, 19, 2], "finding": finding}
    )


def ranked(n: int = 3) -> pd.DataFrame:
    """A ranking whose last item has a hostile name."""
    names = [f"item {k}" for k in range(n - 1)] + ["$\\frac{" + "x" * 5000]
    score = np.linspace(1, -1, n)
    return pd.DataFrame({"item": names, "score": score, "se": 0.1, "rank": range(1, n + 1), "raw_score": score[::-1]})


@dataclass(frozen=True)
class StandIn:
    """Just what the figures read."""

    annotators: pd.DataFrame = field(default_factory=table)
    ranking: pd.DataFrame = field(default_factory=ranked)
    lbi: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            path=SimpleNamespace(
                times=np.array([0.0, 1.0, 2.0]),
                gamma=np.array([[0, 0, 0, 0], [0.5, 0, 0, 0], [0.6, -0.4, 0.1, 0]]),
                annotators=np.array(list("abcd"), dtype=object),
            )
        )
    )


def legend(axes: Any) -> list[str]:
    """The texts of the legend."""
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_path_draws_one_line_per_annotator_in_the_colour_of_its_finding() -> None:
    axes = plot.path(StandIn())
    assert legend(axes) == ["not certain (1)", "not flagged (1)", "leans (1)", "always one side (1)"]
    always: Any = axes.collections[-1]
    np.testing.assert_allclose(always.get_segments()[0][:, 1], [0, 0.5, 0.6])
    assert mpl.colors.to_hex(always.get_color()[0]) == "#d55e00"
    axes.figure.canvas.draw()


def test_path_without_a_record_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="no path to draw"):
        plot.path(StandIn(lbi=SimpleNamespace(path=SimpleNamespace(times=np.zeros(0)))))


def test_scatter_puts_each_annotator_at_its_clicks() -> None:
    axes = plot.scatter(StandIn())
    assert [tuple(np.asarray(c.get_offsets())[0]) for c in axes.collections] == [(1, 2), (20, 19), (30, 10), (40, 0)]
    axes.figure.canvas.draw()


def test_ranking_shows_the_best_items_first_and_survives_hostile_names() -> None:
    axes = plot.ranking(StandIn())
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels[0] == "item 0"
    assert len(labels[2]) < 40
    assert axes.yaxis_inverted()
    axes.figure.canvas.draw()


def test_ranking_of_many_items_says_how_many_are_shown() -> None:
    assert "best 40 of 100" in plot.ranking(StandIn(ranking=ranked(100))).get_title()
    with pytest.raises(ConfigurationError, match="most is 0"):
        plot.ranking(StandIn(), most=0)


def test_plots_draw_into_the_given_axes() -> None:
    from matplotlib import pyplot

    _, given = pyplot.subplots(1, 3)
    stand_in = StandIn()
    assert plot.path(stand_in, ax=given[0]) is given[0]
    assert plot.scatter(stand_in, ax=given[1]) is given[1]
    assert plot.ranking(stand_in, ax=given[2]) is given[2]


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_is_drawn_in_a_group(finding: str) -> None:
    changed = table().assign(finding=finding)
    (name,) = legend(plot.scatter(StandIn(annotators=changed)))
    assert name.endswith(" (4)")
    assert ("always" in name, "leans" in name) == ("only" in finding, "leans" in finding)


def test_plots_of_a_real_detection_show_everybody() -> None:
    detection = detect(small_team(12, 2, 60, rng=np.random.default_rng(0)).comparisons, lbi=KnockoffLBI(draws=1))
    path = plot.path(detection)
    lines: list[Any] = list(path.collections)
    assert sum(len(line.get_segments()) for line in lines) == 12
    points = plot.scatter(detection)
    assert sum(len(np.asarray(group.get_offsets())) for group in points.collections) == 12
    assert len(plot.ranking(detection).get_yticklabels()) == 20
    with pytest.raises(ConfigurationError, match="no path to draw"):
        plot.path(
            detect(
                small_team(12, 2, 60, rng=np.random.default_rng(0)).comparisons,
                lbi=KnockoffLBI(draws=1, path="marginal"),
            )
        )
