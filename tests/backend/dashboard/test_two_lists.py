"""What pages say of the two methods: draws made, the one that decides, flags that need a word, where lists differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from evenhand.domain import Project, RunResult, Trigger
from evenhand.project_config import ProjectConfig
from evenhand.settings import Settings
from evenhand.store import Store
from flask.testing import FlaskClient

from harness import world
from tests.backend.dashboard.browsing import get, person_url, visible

Fresh = tuple[FlaskClient, Store, Settings]
REASON = "Knockoff LBI selects this annotator in 100 % of the draws; the exact test does not."
HOLDS_ZERO = "Flagged although the interval holds 0"


def row(annotator: str, finding: str, **facts: Any) -> Mapping[str, Any]:
    usual = {
        **{"comparisons": 80, "left": 50, "right": 30, "ties": 0, "bias": 0.3, "bias_low": 0.1, "bias_high": 0.5},
        **{"p_value": 0.3, "q_value": 0.5, "lbi_share": 0.0, "match_ratio": 0.7, "more_needed": 0, "entry": 0.1},
        **{"exact_list": False, "lbi_list": False, "difference": "", "flagged": False},
    }
    return {**usual, "annotator": annotator, "finding": finding, **facts}


def judged(store: Store, decided_by: str, *, flagged: Mapping[str, Any], differences: int = 1) -> Project:
    """A run with one flag, and somebody for every other finding, written without judging anybody."""
    project = world.register(store, 1, "Two lists")
    findings = ["suspicious, not enough to flag", "small lean, below your limit", "too few answers", "not assessable"]
    rows = [
        row("1", "leans left", flagged=True, **flagged),
        *(row(str(k), finding) for k, finding in enumerate(findings, start=2)),
        row("6", "no lean seen"),
    ]
    store.annotators.name(project.id, {key: (f"Person {key}", None) for key in "123456"}, insert=True)
    store.runs.request(project.id, Trigger.MANUAL, "tests")
    claimed = store.runs.claim("tests", 60.0)
    assert claimed is not None
    said = {"decided_by": decided_by, "exact_list": 1, "lbi_list": 1, "draws_done": 2, "differences": differences}
    data = {"answers": 480, "annotators": len(rows), "items": 0}
    summary = {"data": data, "flagged": 1, "persistent": 0, "warned": 0, "parameters": {"draws": 21}}
    store.runs.finish(
        claimed[0].id,
        claimed[1],
        RunResult(
            seq=0, seed=0, config={"q": 0.1, "min_bias": 0.1}, versions={}, data_hash="0" * 64, timings={},
            audit={"how": "own coins", "construction": "flip", "reasons": [], "remedies": [], "figures": {}},
            guarantee="FDR, proven: Of the entries on such lists at most about 1 in 10 is wrong.",
            summary={**world.UNSAID, **summary, **said},
            annotators=rows,
        ),
    )  # fmt: skip
    return project


def by_lbi(store: Store) -> Project:
    """Somebody whom LBI, which decides, selects in every draw, and the exact test does not."""
    facts = {"lbi_share": 1.0, "lbi_list": True, "difference": REASON, "bias_low": -0.1}
    return judged(store, "lbi", flagged=facts)


def words(page: str) -> str:
    return re.sub(r"\s+", " ", visible(page))


def test_pages_name_the_draws_made_and_not_those_asked_for(fresh: Fresh) -> None:
    client, store, _ = fresh
    facts = {"q_value": 0.004, "lbi_share": 1.0, "lbi_list": True, "exact_list": True}
    project = judged(store, "exact", flagged=facts, differences=0)
    for path in (f"/ui/projects/{project.id}", person_url(project, "1")):
        page = words(get(client, path))
        assert "100 % of 2 draws" in page
        assert "of 21 draws" not in page.replace("after 2 of 21 draws", "")


def test_pages_where_lbi_decides_take_the_evidence_from_the_persons_own_test(fresh: Fresh) -> None:
    client, store, _ = fresh
    project = by_lbi(store)
    page = words(get(client, f"/ui/projects/{project.id}?show=everybody"))
    assert "none evidence, details LBI selects in 100 % of 2 draws Adjusted p 0.50" in page
    assert "not on the exact list" in page
    assert "From the test of this annotator alone" in page
    assert "Lasting flags, and with them alert cards, rest on the exact tests" in page
    person = words(get(client, person_url(project, "1")))
    assert f"There is no evidence in their own answers alone. {REASON} {HOLDS_ZERO}" in person
    assert f"{HOLDS_ZERO}: knockoff LBI makes the list" in person


def test_page_where_lbi_decides_sorts_evidence_by_its_share(fresh: Fresh) -> None:
    client, store, _ = fresh
    page = get(client, f"/ui/projects/{by_lbi(store).id}?show=everybody&sort=lbi_share&order=desc")
    assert re.search(r'aria-sort="descending"><a [^>]*>Evidence', page)
    assert re.findall(r"<bdi>(Person \d)</bdi>", page)[0] == "Person 1"


def test_page_where_exact_tests_decide_says_nothing_of_lasting_flags_by_another_method(fresh: Fresh) -> None:
    client, store, _ = fresh
    project = judged(store, "exact", flagged={"q_value": 0.004, "exact_list": True})
    page = words(get(client, f"/ui/projects/{project.id}"))
    assert "rest on the exact tests" not in page
    assert HOLDS_ZERO not in page
    assert "interval holds 0" not in page


def test_project_page_explains_a_flag_whose_interval_holds_0(fresh: Fresh) -> None:
    client, store, _ = fresh
    project = judged(store, "exact", flagged={"q_value": 0.08, "exact_list": True, "bias_low": -0.05})
    page = get(client, f"/ui/projects/{project.id}?show=everybody")
    assert words(page).count(HOLDS_ZERO) == 1
    assert "it does not use the interval" in words(page)
    assert re.search(rf"<details class=\"evidence\">(?:(?!</details>).)*{HOLDS_ZERO}", page, re.DOTALL)


def test_reason_why_lists_differ_is_text_within_the_details_and_no_tooltip(fresh: Fresh) -> None:
    client, store, _ = fresh
    page = get(client, f"/ui/projects/{by_lbi(store).id}?show=everybody")
    assert re.search(rf"<details class=\"evidence\">(?:(?!</details>).)*<p>{REASON}</p>", page, re.DOTALL)
    assert f'title="{REASON}' not in page


def test_project_page_narrows_to_those_about_whom_the_lists_differ(fresh: Fresh) -> None:
    client, store, _ = fresh
    project = by_lbi(store)
    assert 'show=differ">Show them</a>' in get(client, f"/ui/projects/{project.id}")
    page = get(client, f"/ui/projects/{project.id}?show=differ")
    assert '<option value="differ" selected>lists differ</option>' in page
    assert re.findall(r"<bdi>(Person \d)</bdi>", page) == ["Person 1"]


def test_project_page_where_the_lists_agree_has_no_filter_for_it(fresh: Fresh) -> None:
    client, store, _ = fresh
    project = judged(store, "exact", flagged={"q_value": 0.004, "exact_list": True}, differences=0)
    assert "lists differ" not in get(client, f"/ui/projects/{project.id}?show=differ")


@pytest.mark.parametrize("form", ["", "paper"])
def test_figures_call_nobody_good_but_those_without_a_sign_of_a_lean(fresh: Fresh, form: str) -> None:
    client, store, _ = fresh
    project = judged(store, "exact", flagged={"q_value": 0.004, "exact_list": True})
    page = get(client, f"/ui/projects/{project.id}/figures?form={form}")
    good, ugly = (" (good)", " (ugly)") if form else ("", "")
    legend = words(page)
    assert f"no lean seen{good}: 1" in legend
    assert f"leans to one side{ugly}: 1" in legend
    assert "small or uncertain lean, not flagged: 2; not judged: 2" in legend
    kinds = dict(re.findall(r'"finding":\s*"([^"]+)",\s*"kind":\s*"(\w+)"', page))
    assert kinds.pop("no lean seen") == "calm"
    assert kinds.pop("leans left") == "lean"
    assert set(kinds.values()) == {"wait"}


def test_run_without_draws_leaves_the_list_of_lbi_unknown_everywhere(fresh: Fresh) -> None:
    client, store, _ = fresh
    project = world.simulated(store, 1, "Without draws", annotators=12, biased=2, answers=80, bias=0.8, seed=5)
    store.projects.set_config(project.id, ProjectConfig.model_validate({"lbi": "off"}))
    world.judge(store, project)
    rows = client.get(f"/api/v1/projects/{project.id}/annotators").get_json()["rows"]
    assert {row["lbi_list"] for row in rows} == {None}
    assert {row["exact_list"] for row in rows} == {True, False}
    assert "knockoff LBI was left out" in words(get(client, f"/ui/projects/{project.id}"))


def test_project_page_of_a_run_on_no_answers_still_answers(fresh: Fresh) -> None:
    client, store, _ = fresh
    project = world.register(store, 1, "Nothing yet")
    world.judge(store, project)
    assert "could judge nobody" in words(get(client, f"/ui/projects/{project.id}"))
