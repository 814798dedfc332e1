"""Why the two lists differ, in words."""

from typing import Any

import numpy as np
import pytest

from fdr_core.opinions import Opinions, differences


def said(
    *,
    exact: bool,
    lbi: bool,
    share: float,
    q_value: float = 0.03,
    stuck: bool = False,
    others: int = 0,
    shortest: int = 1,
    by_evalues: bool = False,
) -> list[str]:
    """What is said of the first of some annotators; the others are on both lists."""
    m = 1 + others
    rest = [True] * others
    opinions = Opinions(
        exact=np.array([exact, *rest]),
        lbi=np.array([lbi, *rest]),
        q_value=np.full(m, q_value),
        share=np.full(m, share),
        unselectable=np.array([stuck] + [False] * others),
        q=0.1,
        shortest=shortest,
        by_evalues=by_evalues,
    )
    return differences(opinions)


def test_annotators_on_both_or_no_list_are_not_mentioned() -> None:
    assert said(exact=True, lbi=True, share=1.0, others=2) == ["", "", ""]
    assert said(exact=False, lbi=False, share=0.2) == [""]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"share": 0.38, "others": 3}, "LBI does so in 38 % of the draws, and more than half are needed"),
        ({"share": 0.0, "stuck": True}, "the copy hardly differs from the annotator"),
        ({"share": 0.0, "shortest": 10}, "its shortest list has 10"),
        ({"share": 0.6, "others": 3, "by_evalues": True}, "too few for its e-values"),
        ({"share": 0.1, "others": 1, "q_value": 1e-9}, "adjusted p-value below 0.0001, q = 0.1"),
    ],
)
def test_flagged_by_the_exact_test_alone_says_what_lbi_lacks(facts: dict[str, Any], words: str) -> None:
    assert words in said(exact=True, lbi=False, **facts)[0]


def test_selected_by_lbi_alone_says_what_the_exact_test_lacks() -> None:
    (words,) = said(exact=False, lbi=True, share=0.9, q_value=0.14)
    assert "selects this annotator in 90 % of the draws" in words
    assert "its adjusted p-value 0.14 is above q = 0.1" in words
