"""Figures: what is drawn, for whom, and that labels cannot break them."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from fdr_core import detect, plot
from fdr_core.errors import ConfigurationError
from fdr_core.simulate import small_team


@pytest.fixture(autouse=True)
def _no_window():
    mpl.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def table() -> pd.DataFrame:
    """Four annotators, one of each verdict."""
    verdict = ["bad", "ugly", "good", "not assessable"]
    return pd.DataFrame(
        {"annotator": list("abcd"), "left": [40, 30, 20, 1], "right": [0, 10, 19, 2], "verdict": verdict}
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
    path_record: SimpleNamespace | None = field(
        default_factory=lambda: SimpleNamespace(
            times=np.array([0.0, 1.0, 2.0]),
            gamma=np.array([[0, 0, 0, 0], [0.5, 0, 0, 0], [0.6, -0.4, 0.1, 0]]),
            annotators=np.array(list("abcd"), dtype=object),
        )
    )


def legend(axes) -> list[str]:
    """The texts of the legend."""
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_path_draws_one_line_per_annotator_in_the_colour_of_its_verdict():
    axes = plot.path(StandIn())
    assert legend(axes) == ["not assessable (1)", "good (1)", "ugly (1)", "bad (1)"]
    bad = axes.collections[-1]
    np.testing.assert_allclose(bad.get_segments()[0][:, 1], [0, 0.5, 0.6])
    assert mpl.colors.to_hex(bad.get_color()[0]) == "#d55e00"
    axes.figure.canvas.draw()


def test_path_without_a_record_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="no path to draw"):
        plot.path(StandIn(path_record=None))


def test_scatter_puts_each_annotator_at_its_clicks():
    axes = plot.scatter(StandIn())
    assert [tuple(c.get_offsets()[0]) for c in axes.collections] == [(1, 2), (20, 19), (30, 10), (40, 0)]
    axes.figure.canvas.draw()


def test_ranking_shows_the_best_items_first_and_survives_hostile_names():
    axes = plot.ranking(StandIn())
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels[0] == "item 0"
    assert len(labels[2]) < 40
    assert axes.yaxis_inverted()
    axes.figure.canvas.draw()


def test_ranking_of_many_items_says_how_many_are_shown():
    assert "best 40 of 100" in plot.ranking(StandIn(ranking=ranked(100))).get_title()
    with pytest.raises(ConfigurationError, match="most is 0"):
        plot.ranking(StandIn(), most=0)


def test_plots_draw_into_the_given_axes():
    from matplotlib import pyplot

    _, given = pyplot.subplots(1, 3)
    stand_in = StandIn()
    assert plot.path(stand_in, ax=given[0]) is given[0]
    assert plot.scatter(stand_in, ax=given[1]) is given[1]
    assert plot.ranking(stand_in, ax=given[2]) is given[2]


def test_verdicts_with_details_belong_to_their_group():
    changed = table().assign(verdict=["bad", "ugly", "good", "not assessable yet: needs about 14 more answers"])
    assert "not assessable (1)" in legend(plot.scatter(StandIn(annotators=changed)))


def test_plots_of_a_real_detection_show_everybody():
    detection = detect(small_team(12, 2, 60, rng=np.random.default_rng(0)).comparisons, draws=1)
    path = plot.path(detection)
    assert sum(len(lines.get_segments()) for lines in path.collections) == 12
    points = plot.scatter(detection)
    assert sum(len(group.get_offsets()) for group in points.collections) == 12
    assert len(plot.ranking(detection).get_yticklabels()) == 20
    with pytest.raises(ConfigurationError, match="no path to draw"):
        plot.path(detect(small_team(12, 2, 60, rng=np.random.default_rng(0)).comparisons, draws=1, path="marginal"))
