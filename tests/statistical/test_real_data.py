"""Real crowds, where their data is present: the paper's own findings, a cleaned crowd, stability of flags."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fdr_core import Comparisons, KnockoffLBI, detect

pytestmark = [pytest.mark.data, pytest.mark.slow]


def read(folder: Any, **columns: Any) -> Any:
    """Comparisons of a data set, some columns under another name."""
    frame = pd.read_csv(folder / "comparisons.csv").rename(columns=columns)
    wanted = [name for name in ("annotator", "left", "right", "choice", "coin") if name in frame]
    return Comparisons.from_frame(frame[wanted])


def jaccard(one: Any, two: Any) -> Any:
    one, two = set(one), set(two)
    return len(one & two) / len(one | two) if one | two else 1.0


def test_worldcollege_with_the_papers_method_flags_the_papers_annotators(dataset: Callable[[str], Path]) -> None:
    folder = dataset("worldcollege")
    papers = set(pd.read_csv(folder / "paper_table8.csv")["annotator"])
    result = detect(read(folder), decide_by="lbi", lbi=KnockoffLBI(construction="paper", cut="knockoff", draws=51))
    assert len(papers) == 36
    assert len(papers & set(result.flagged)) >= 23
    assert len(set(result.flagged) - papers) <= 3
    clicks = pd.read_csv(folder / "paper_table8.csv").set_index("annotator")
    table = result.annotators.set_index("annotator").loc[clicks.index]
    assert table["left"].tolist() == clicks["left_clicks"].tolist()
    assert table["right"].tolist() == clicks["right_clicks"].tolist()


@pytest.mark.parametrize(
    ("name", "table", "least", "most_others"),
    [
        ("worldcollege", "worldcollege/paper_table8.csv", 26, 1),
        ("humanage", "paper_tables/table3_humanage.csv", 17, 77),
        ("iqa_ref1", "paper_tables/table7_iqa_ref1.csv", 19, 152),
    ],
)
def test_papers_annotators_are_flagged_by_default(
    dataset: Callable[[str], Path], name: str, table: str, least: int, most_others: int
) -> None:
    papers = set(pd.read_csv(dataset(name).parent / table)["annotator"])
    flagged = set(detect(read(dataset(name)), lbi=None).flagged)
    assert len(papers & flagged) >= least
    assert len(flagged - papers) <= most_others


def test_judges_who_lean_beyond_the_limit_are_flagged_and_no_others(dataset: Callable[[str], Path]) -> None:
    table = detect(read(dataset("alpaca_eval_judges"), instruction="coin"), lbi=None).annotators
    leans = (table["bias"].abs() >= 0.1) & (table["p_value"] < 0.001)
    assert leans.sum() == 2
    assert table["flagged"].tolist() == leans.tolist()


def test_llmfao_has_fifteen_who_lean(dataset: Callable[[str], Path]) -> None:
    assert len(detect(read(dataset("llmfao"), id="coin"), lbi=None).flagged) >= 15


def test_pandalm_whose_pairs_always_stand_in_one_order_cannot_be_judged(dataset: Callable[[str], Path]) -> None:
    result = detect(read(dataset("pandalm")), lbi=None)
    assert result.flagged == []
    assert set(result.annotators["finding"]) == {"not assessable"}


def test_ukpconvarg1_as_a_cleaned_crowd_has_nobody_flagged(dataset: Callable[[str], Path]) -> None:
    result = detect(read(dataset("ukpconvarg1")))
    assert result.audit.figures["components"] == 32
    assert result.flagged == []


@pytest.mark.parametrize(("name", "columns"), [("worldcollege", {}), ("llmfao", {"id": "coin"})])
def test_flags_of_two_seeds_agree(dataset: Callable[[str], Path], name: Any, columns: Any) -> None:
    comparisons = read(dataset(name), **columns)
    one, two = (detect(comparisons, lbi=KnockoffLBI(seed=seed)) for seed in (0, 1))
    assert one.flagged
    assert jaccard(one.flagged, two.flagged) >= 0.95, set(one.flagged) ^ set(two.flagged)


def test_alpaca_eval_judges_with_instructions_as_coins_are_judged(dataset: Callable[[str], Path]) -> None:
    result = detect(read(dataset("alpaca_eval_judges"), instruction="coin"))
    assert result.audit.construction in ("flip", "paper")
    table = result.annotators.set_index("annotator")
    assert len(table) == 6
    assert (~table["finding"].isin(["not assessable", "too few answers"])).all()
    assert table[["bias", "bias_low", "bias_high", "p_value"]].notna().all().all()
