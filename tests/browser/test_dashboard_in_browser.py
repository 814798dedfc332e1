"""The dashboard as people use it: every page walked through in a real browser."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import Service, Watch, serving

pytestmark = pytest.mark.browser

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
PAGES = {
    "projects": "",
    "project": "projects/1",
    "annotator": "projects/1/annotator?id=33",
    "today": "today",
    "project's day": "projects/1/today",
    "next step": "projects/1/next",
    "one person": "person?id=33",
    "page to hand out": "projects/1/handout?id=33",
    "hostile project's day": "projects/2/today",
    "ranking": "projects/1/ranking",
    "figures": "projects/1/figures",
    "runs": "projects/1/runs",
    "decisions": "projects/1/decisions",
    "settings": "projects/1/settings",
    "status": "status?checks=1",
    "hostile project": "projects/2",
    "hostile annotator": "projects/2/annotator?id=1",
    "hostile ranking": "projects/2/ranking",
    "hostile figures": "projects/2/figures",
    "hostile decisions": "projects/2/decisions",
    "one annotator": "projects/3",
    "one annotator's page": "projects/3/annotator?id=1",
    "no data": "projects/4",
    "no data, ranking": "projects/4/ranking",
    "failed run": "projects/5",
    "failed run, runs": "projects/5/runs",
    "10,000 annotators": "projects/6",
    "10,000 annotators, figures": "projects/6/figures",
}
MODES: dict[str, Any] = {
    "desktop light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "desktop dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone light": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light", "has_touch": True},
    "phone dark": {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark", "has_touch": True},
}
# Examined by axe-core, which takes a second a page: together they see both themes and both layouts.
EXAMINED = ("desktop light", "phone dark")


def violations(page: Page) -> list[str]:
    """What axe-core calls serious or critical, each with the first element concerned."""
    page.evaluate(AXE)
    result = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    return [
        f"{found['id']}: {found['nodes'][0]['html'][:200]} {found['nodes'][0].get('failureSummary', '')[:300]}"
        for found in result
        if found["impact"] in ("serious", "critical")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_page_is_accessible_and_keeps_its_layout(
    browser: Browser, service: Service, watch: Watch, mode: str
) -> None:
    context = service.opened(browser, **MODES[mode])
    context.on("page", watch.follow)
    page = context.new_page()
    found: dict[str, Any] = {}
    for name, path in PAGES.items():
        answer = page.goto(service.ui(path))
        assert answer is not None
        assert answer.status == 200, name
        width = page.evaluate("document.documentElement.scrollWidth")
        assert page.viewport_size is not None
        if width > page.viewport_size["width"]:
            found[name] = f"{width} pixels wide"
        wrong = violations(page) if mode in EXAMINED else []
        if wrong:
            found[name] = wrong
        assert page.title().endswith("Evenhand"), "a text from outside was run"
    context.close()
    assert found == {}


def test_project_table_sorts_filters_and_searches_at_once(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/1?show=everybody"))
    names = page.locator("table.annotators tbody th")
    page.get_by_role("link", name="Lean (95 % interval)").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text(re.compile("Lean"))
    leans = [_lean(text) for text in page.locator("td[data-label^=Lean]").all_inner_texts()]
    assert leans == sorted(leans, reverse=True)
    page.get_by_role("link", name="Lean (95 % interval)").click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text(re.compile("Lean"))
    expect(page.get_by_role("button", name="Apply")).to_be_hidden()
    page.get_by_label("Show").select_option(label="flagged in this run")
    expect(names).to_have_count(int(page.locator(".figures-line strong").inner_text().split()[0]))
    page.get_by_label("Show").select_option(label="everybody")
    page.get_by_label("Name or id").press_sequentially("person 33")
    expect(names).to_have_text([re.compile("Person 33")])
    expect(page.get_by_label("Name or id")).to_be_focused()
    page.get_by_role("link", name="Show everybody").click()
    page.get_by_role("link", name="Next →").click()
    expect(names).to_have_count(10)


def _lean(text: str) -> float:
    found = re.search(r"(left|right)? ?(\d\.\d\d)", text)
    assert found is not None, text
    return float(found.group(2)) * (-1 if found.group(1) == "right" else 1)


@pytest.mark.parametrize(("choice", "word"), [("Confirm", "Confirmed"), ("Dismiss", "Dismissed")])
def test_decision_made_on_the_annotator_s_page_is_logged(page: Page, service: Service, choice: str, word: str) -> None:
    page.goto(service.ui("projects/1?show=everybody"))
    page.locator("table.annotators tbody th a").first.click()
    page.get_by_role("radio", name=choice).check()
    comment = f'{choice}: <b>"looked" at 20 answers</b> 🙂'
    page.get_by_label("Comment").fill(comment)
    page.get_by_role("button", name="Record the decision").click()
    expect(page.get_by_role("status")).to_contain_text(word)
    expect(page.get_by_role("status")).to_contain_text("The decision is in the log.")
    expect(page.locator("#decisions table tbody tr").first).to_contain_text(comment)
    page.get_by_role("link", name="Decisions").click()
    expect(page.locator("main")).to_contain_text("The log is intact")
    expect(page.locator("tbody tr").first).to_contain_text(comment)


def test_settings_refused_are_explained_and_accepted_ones_kept(page: Page, watch: Watch, service: Service) -> None:
    watch.expected.append("422")
    page.goto(service.ui("projects/2/settings"))
    page.get_by_label("Target error rate q").fill("3")
    page.get_by_role("button", name="Save settings").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was saved")
    expect(page.get_by_label("Target error rate q")).to_have_value("3")
    expect(page.locator(".wrong")).to_have_text("q must be a number between 0 and 1, such as 0.1; you typed 3")
    expect(page.get_by_label("Knockoff draws")).to_be_hidden()
    assert violations(page) == []
    page.get_by_label("Target error rate q").fill("0.2")
    page.get_by_role("checkbox", name="Review tab", exact=True).check()
    page.get_by_role("button", name="Save settings").click()
    expect(page.get_by_role("status")).to_contain_text("Saved. The next run uses the new settings.")
    page.reload()
    expect(page.get_by_label("Target error rate q")).to_have_value("0.2")
    expect(page.get_by_role("checkbox", name="Review tab", exact=True)).to_be_checked()


def test_run_now_shows_progress_and_then_the_new_run(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/1/runs"))
    rows = page.locator("table tbody tr")
    before = rows.count()
    page.get_by_role("button", name="Run now").first.click()
    expect(rows).to_have_count(before + 1)
    expect(rows.first).to_contain_text("done", timeout=60_000)
    expect(page.locator("[data-poll]")).to_have_count(0)
    page.get_by_role("button", name="Compare these two runs").click()
    expect(page.locator("main")).to_contain_text("Both runs saw exactly the same answers")
    expect(page.locator("main")).to_contain_text("Both runs flag the same")
    assert violations(page) == []


def test_reports_download_from_the_project_page(page: Page, service: Service, tmp_path: Path) -> None:
    page.goto(service.ui("projects/1"))
    content = {}
    for name in ("report.json", "annotators.csv", "ranking.csv"):
        with page.expect_download() as waiting:
            page.get_by_role("link", name=name, exact=True).click()
        waiting.value.save_as(tmp_path / name)
        content[name] = (tmp_path / name).read_text(encoding="utf-8")
    report = json.loads(content["report.json"])
    assert len(report["annotators"]) == 60
    rows = list(csv.DictReader(io.StringIO(content["annotators.csv"].removeprefix("\ufeff"))))
    assert [row["annotator"] for row in rows] == [row["annotator"] for row in report["annotators"]]
    assert len(content["ranking.csv"].splitlines()) == 21
    with page.expect_download() as waiting:
        page.get_by_role("link", name="annotators.csv with pseudonyms").click()
    waiting.value.save_as(tmp_path / "hidden.csv")
    assert "Person" not in (tmp_path / "hidden.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("project", [1, 2])
def test_report_page_is_accessible_and_prints(page: Page, service: Service, project: int) -> None:
    page.goto(service.ui(f"projects/{project}"))
    page.get_by_role("link", name="report.html", exact=True).click()
    expect(page.get_by_role("heading", name="Whose answers lean to one side")).to_be_visible()
    assert violations(page) == []
    assert page.title() != "owned"
    printed = page.pdf(prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 2 <= pages <= 12


def test_theme_chosen_is_remembered(page: Page, service: Service) -> None:
    page.goto(service.ui())
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    button = page.locator("#theme")
    button.click()
    expect(button).to_have_text("Theme: light")
    button.click()
    expect(button).to_have_text("Theme: dark")
    dark = page.evaluate(background)
    assert dark != light
    page.goto(service.ui("status"))
    assert page.evaluate(background) == dark


def test_keyboard_reaches_content_and_actions(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/1"))
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.closest('main') !== null")
    assert focused
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize(
    ("path", "chart", "said"),
    [
        ("projects/1/figures", "path", "coefficient here"),
        ("projects/1/figures", "lean", "lean"),
        ("projects/1/figures?form=paper", "scatter", "lean"),
        ("projects/1/ranking", "ranking", "95 % interval"),
        ("projects/1/annotator?id=33", "sides", "of 10 left"),
        ("projects/1/annotator?id=33", "evidence", "after answer"),
    ],
)
def test_chart_is_drawn_and_tells_values_on_hover(
    page: Page, service: Service, path: str, chart: str, said: str
) -> None:
    page.goto(service.ui(path))
    drawing = page.locator(f"[data-chart={chart}] .drawing")
    for hidden in page.locator(".evidence-details > summary").all():
        hidden.click()
    expect(drawing).to_have_attribute("aria-label", re.compile("."))
    drawing.scroll_into_view_if_needed()
    box = drawing.locator("svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.5)
    expect(drawing.locator("[aria-label=tip]")).to_contain_text(said)


def test_hostile_texts_stay_text_in_charts_and_tooltips(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/2/ranking"))
    drawing = page.locator("[data-chart=ranking] .drawing")
    expect(drawing).to_contain_text("<script>")
    assert drawing.locator("script, img, foreignObject").count() == 0
    label = drawing.locator("[aria-label='y-axis tick label']").first.bounding_box()
    outer = page.locator("[data-chart=ranking]").bounding_box()
    assert label is not None
    assert outer is not None
    assert label["x"] >= outer["x"] - 2


def test_status_page_loads_the_checks_and_names_what_is_wrong(page: Page, service: Service) -> None:
    page.goto(service.ui("status"))
    checks = page.locator("[data-load]")
    expect(checks).to_contain_text("could not be reached", timeout=60_000)
    expect(checks).to_contain_text("Check that Label Studio runs")
    expect(page.locator("main")).to_contain_text("12 events rejected")


def test_first_page_of_ten_thousand_annotators_is_as_light_as_any(page: Page, service: Service) -> None:
    """What takes time is what is sent and drawn; seconds are measured in benchmarks/pages.py."""
    page.goto(service.ui("projects/6"))
    expect(page.locator("table.annotators tbody tr")).to_have_count(50)
    assert len(page.content()) < 400_000


def test_page_that_does_not_exist_is_explained(page: Page, watch: Watch, service: Service) -> None:
    watch.expected.append("404")
    page.goto(service.ui("projects/999"))
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()
    assert violations(page) == []


@pytest.mark.slow
def test_stranger_logs_in_to_an_empty_service_and_loads_the_demo(
    context: BrowserContext, watch: Watch, tmp_path: Path
) -> None:
    """From nothing to flagged annotators with one button, under a password."""
    watch.expected.append("401")
    page = context.new_page()
    account = {"BASIC_AUTH_USER": "mira", "BASIC_AUTH_PASS": "a long password", "BASIC_AUTH_ROLE": "owner"}
    with serving(tmp_path, **account) as service:
        page.goto(service.ui("status"))
        assert violations(page) == []
        page.get_by_label("Name").fill("mira")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("wrong")
        page.get_by_label("Password").fill("a long password")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Status")).to_be_visible()
        page.get_by_role("link", name="Projects", exact=True).click()
        expect(page.get_by_role("heading", name="Nothing to judge yet")).to_be_visible()
        assert violations(page) == []
        page.get_by_role("button", name="Load the demo project").click()
        expect(page.locator(".figures-line")).to_contain_text("of 40 annotators", timeout=60_000)
        expect(page.locator(".reviewed")).to_contain_text("Reviewed 0 of")
        expect(page.locator("table.annotators tbody tr").first).to_contain_text(re.compile("(left|right) side only"))
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
