"""Leans by week and whose has changed: figures worked by hand, error rate and power by Monte Carlo, what is refused."""

import json
import math
import re
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from fdr_core import Comparisons, InputError, SufficientStatistics, detect
from fdr_core.changes import WEEK, Changes, lean_changes
from fdr_core.commands.analyze import analyze as command

DOCS = Path(__file__).parents[2] / "docs"
MONDAY = 1_704_067_200.0  # 2024-01-01, a Monday
N_ITEMS = 12


def crowd(
    rng: np.random.Generator,
    *,
    people: int = 40,
    weeks: int = 6,
    per_week: int = 25,
    changing: int = 0,
    to: float = 0.7,
) -> tuple[pd.DataFrame, set[str]]:
    """Answers of Bradley-Terry judges, a third of them with a lean; the first ones' lean moves in some week."""
    n = people * weeks * per_week
    who = np.repeat(np.arange(people), weeks * per_week)
    week = np.tile(np.repeat(np.arange(weeks), per_week), people)
    left = rng.integers(N_ITEMS, size=n)
    right = (left + rng.integers(1, N_ITEMS, size=n)) % N_ITEMS
    theta = rng.normal(size=N_ITEMS)
    lean = np.where(np.arange(people) % 3 == 0, 0.4, 0.0)[who]
    at = rng.integers(1, weeks, size=people)[who]
    moved = (who < changing) & (week >= at)
    lean = np.where(moved, lean - to, lean)
    clicks = rng.random(n) < np.abs(lean)
    honest = np.where(rng.random(n) < 1 / (1 + np.exp(theta[right] - theta[left])), 1.0, -1.0)
    frame = pd.DataFrame(
        {
            "annotator": [f"p{k:03d}" for k in who],
            "left": [f"i{k}" for k in left],
            "right": [f"i{k}" for k in right],
            "outcome": np.where(clicks, np.sign(lean), honest),
            "coin": np.arange(n),
            "time": MONDAY + week * WEEK + rng.random(n) * WEEK,
        }
    )
    return frame, {f"p{k:03d}" for k in range(changing)}


def found(frame: pd.DataFrame, **options: float) -> Changes:
    return lean_changes(Comparisons.from_frame(frame), sides="random", **options)  # type: ignore[arg-type]  # floats


def test_a_week_starts_on_monday_and_its_lean_is_the_mean_of_its_answers() -> None:
    """Items of their own: other coins say nothing of a pair, so a lean is the plain mean."""
    outcome = [1.0] * 8 + [-1.0] * 2 + [1.0] * 3 + [-1.0] * 7
    times = [MONDAY + k for k in range(10)] + [MONDAY + WEEK - 1 + k for k in range(10)]
    frame = pd.DataFrame(
        {
            "annotator": "a", "left": [f"l{k}" for k in range(20)], "right": [f"r{k}" for k in range(20)],
            "outcome": outcome, "coin": range(20), "time": times,
        }
    )  # fmt: skip
    weeks = found(frame).weeks
    assert weeks["week"].tolist() == [MONDAY, MONDAY + WEEK]
    assert weeks["answers"].tolist() == [11, 9]
    assert weeks["lean"].tolist() == pytest.approx([7 / 11, -5 / 9])
    assert (weeks["low"] < weeks["lean"]).all()
    assert (weeks["lean"] < weeks["high"]).all()
    row = found(frame, since=MONDAY + WEEK).annotators.iloc[0]
    assert (row["before"], row["after"]) == pytest.approx((7 / 11, -5 / 9))
    # Welch with one observation of size 1 added to each spread: s² = sum of squares c/(c-1) + 1, over n²
    spread = [n * (1 - lean**2) * n / (n - 1) + 1 for n, lean in ((11, 7 / 11), (9, -5 / 9))]
    error = math.sqrt(spread[0] / 121 + spread[1] / 81)
    assert (row["high"] - row["change"]) / error == pytest.approx(2.10, abs=0.02)  # t of about 18 degrees
    assert row["low"] == -2
    assert row["since"] == MONDAY + WEEK
    assert row["changed"]


def test_list_of_the_changed_keeps_its_rate_and_finds_most() -> None:
    """Mean false share and share found over 20 crowds of 40, ten of whom change their lean by .7 in some week."""
    rng = np.random.default_rng(5)
    false, power = [], []
    for _ in range(20):
        frame, truth = crowd(rng, changing=10)
        listed = set(found(frame).changed)
        false.append(len(listed - truth) / max(len(listed), 1))
        power.append(len(listed & truth) / len(truth))
    assert np.mean(false) <= 0.1
    assert np.mean(power) >= 0.8


def test_where_nobody_changes_p_values_are_not_too_small() -> None:
    rng = np.random.default_rng(6)
    tables = [found(crowd(rng, people=40, weeks=4, per_week=12)[0], since=MONDAY + 2 * WEEK) for _ in range(8)]
    p_value = np.concatenate([table.annotators["p_value"] for table in tables])
    for level in (0.02, 0.1, 0.5):
        assert np.mean(p_value <= level) <= level + 2 * math.sqrt(level * (1 - level) / len(p_value))


def test_a_moment_that_is_named_tells_more_than_one_that_is_searched_for() -> None:
    frame, _ = crowd(np.random.default_rng(7), people=4, weeks=4, changing=0)
    late = (frame["annotator"] == "p001") & (frame["time"] >= MONDAY + 2 * WEEK)
    frame.loc[late, "outcome"] = 1.0
    named, searched = found(frame, since=MONDAY + 2 * WEEK), found(frame)
    assert named.changed == searched.changed == ["p001"]
    assert searched.annotators["since"][0] == MONDAY + 2 * WEEK
    assert named.annotators["p_value"][0] == pytest.approx(searched.annotators["p_value"][0] / 3)


def test_statistics_with_noted_times_and_an_audit_that_was_made_give_the_same() -> None:
    frame, _ = crowd(np.random.default_rng(8), people=6, changing=2)
    c = Comparisons.from_frame(frame)
    statistics = SufficientStatistics.from_comparisons(c)
    statistics.note_times(frame[["annotator", "left", "right", "coin", "time"]].itertuples(index=False, name=None))
    audited = detect(c, lbi=None).audit
    one, other = lean_changes(c), lean_changes(statistics, audit=audited)
    by = ["annotator", "week"]
    pd.testing.assert_frame_equal(
        one.weeks.sort_values(by, ignore_index=True), other.weeks.sort_values(by, ignore_index=True)
    )
    pd.testing.assert_frame_equal(one.annotators, other.annotators)


def test_what_cannot_be_told_says_why() -> None:
    frame, _ = crowd(np.random.default_rng(9), people=3, weeks=2, per_week=4)
    few = found(frame)
    assert few.changed == []
    assert few.annotators["p_value"].isna().all(), "fewer than six coins on a side"
    timeless = found(frame.drop(columns="time"))
    assert timeless.changed == []
    assert "carry no times" in timeless.reasons[0]
    placed = lean_changes(Comparisons.from_frame(frame), sides="not random")
    assert placed.weeks.empty
    assert "where coins decided" in placed.reasons[-1]
    some = frame.assign(time=frame["time"].where(frame.index > 0))
    assert found(some).reasons == ("1 answers carry no time and are left out here.",)
    with pytest.raises(InputError, match=r"from 2024-01-01 .* to 2024-01-14 .*; name a moment between"):
        found(frame, since=0.0)


def analyze(path: Path, *words: object) -> Result:
    return CliRunner().invoke(command, [str(path), "--lbi", "off", *map(str, words)])


def test_analyze_tells_whose_lean_has_changed_in_all_its_words(tmp_path: Path) -> None:
    frame, truth = crowd(np.random.default_rng(11), people=12, weeks=4, changing=3, to=1.0)
    path = tmp_path / "answers.csv"
    frame.assign(time=pd.to_datetime(frame["time"], unit="s").astype(str)).to_csv(path, index=False)
    found = analyze(path, "--since", "weeks", "--sides", "random", "--out", tmp_path / "r")
    assert found.exit_code == 0, found.output
    report = json.loads((tmp_path / "r" / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, json.loads((DOCS / "report-schema.json").read_text(encoding="utf-8")))
    changed = [row["annotator"] for row in report["changes"]["annotators"] if row["changed"]]
    assert set(changed) == truth
    assert "lean changed: 3 of 12 annotators" in found.output
    assert re.search(rf"{changed[0]}: .* until \d+ January 2024, right .* from then on", found.output)
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "Whose lean has changed" in page
    assert page.count("By week: ") == 3
    hidden = analyze(path, "--since", "2024-01-15", "--sides", "random", "--pseudonymise", "--json")
    moved = json.loads(hidden.stdout)["changes"]
    assert {row["annotator"][:10] for table in ("annotators", "weeks") for row in moved[table]} == {"annotator "}
    for words, said in ((["--since", "lately"], "expected a date"), (["--since", "2031-01-01"], "name a moment")):
        refused = analyze(path, *words)
        assert (refused.exit_code, said in refused.output) == (2, True)
    frame.drop(columns="time").to_csv(path, index=False)
    assert "--map time=" in analyze(path, "--since", "weeks").output
