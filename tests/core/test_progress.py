"""Progress by stage: the shares, the line of the bar, and silence where nobody looks."""

import io
import itertools

import pytest

from fdr_core.progress import PATIENCE, STAGES, Bar, progress_bar, share_done


def test_stages_follow_each_other_without_gaps_and_end_at_all() -> None:
    names = list(STAGES)
    assert share_done(names[0], 0, 1) == 0.0
    assert share_done(names[-1], 3, 3) == 1.0
    for one, following in itertools.pairwise(names):
        assert share_done(one, 21, 21) == pytest.approx(share_done(following, 0, 21))
    assert share_done("simulate", 1, 4) == 0.25


def test_a_bar_says_nothing_for_a_second_then_stage_share_and_estimate() -> None:
    now, stream = [0.0], io.StringIO()
    bar = Bar(stream, lambda: now[0])
    bar("audit", 0, 1)
    now[0] = PATIENCE - 0.01
    bar("tests", 0, 1)
    assert stream.getvalue() == ""
    now[0] = 3.0
    bar("LBI", 0, 21)
    done, begun = share_done("LBI", 0, 21), share_done("audit", 0, 1)
    line = stream.getvalue()
    assert line.startswith("\rLBI")
    assert f"{done:.0%}" in line
    assert f"about {round(3.0 * (1 - done) / (done - begun))} s left" in line
    now[0] = 4.0
    bar.draw()  # nothing new, but time has passed
    assert stream.getvalue().count("\r") == 2
    bar.erase()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_nothing_is_written_where_the_error_stream_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as progress:
        progress("tests", 1, 1)
    assert capsys.readouterr() == ("", "")
