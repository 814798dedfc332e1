"""What a reviewer sees and does: left on the left, evidence, the queue by keyboard, first screen, figures, print."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Service, Watch

pytestmark = pytest.mark.browser


def test_left_leaner_s_dot_lies_left_of_the_centre(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/1?show=flagged"))
    sides = set()
    for row in page.locator("table.annotators tbody tr").all():
        words = row.locator("td[data-label=Finding] .badge").inner_text()
        dot, axis = row.locator(".interval .point").bounding_box(), row.locator(".interval").bounding_box()
        assert dot is not None
        assert axis is not None
        is_left = dot["x"] + dot["width"] / 2 < axis["x"] + axis["width"] / 2
        assert is_left == words.endswith("left"), words
        sides.add(words.split()[-1])
    assert sides == {"left", "right"}
    expect(page.locator(".ends")).to_have_text("leftright")
    left = page.locator("tr", has_text="leans left").first.locator("th a")
    left.click()
    big, point = page.locator(".bigline").bounding_box(), page.locator(".bigline .point").bounding_box()
    assert big is not None
    assert point is not None
    assert point["x"] + point["width"] / 2 < big["x"] + big["width"] / 2


def test_evidence_is_a_word_with_the_number_behind_it(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/1?show=flagged"))
    cell = page.locator("td[data-label=Evidence]").first
    expect(cell.locator("summary")).to_have_attribute("title", re.compile(r"own p-value .*, adjusted for all"))
    expect(cell.locator(".strength")).to_have_text(re.compile("strong|moderate|weak"))
    expect(cell.get_by_text("Exact test, p")).to_be_hidden()
    cell.locator("summary").click()
    expect(cell.get_by_text("Exact test, p")).to_be_visible()
    expect(cell.get_by_text("LBI selects in")).to_be_visible()
    expect(page.locator(".promise")).to_contain_text("Of the entries on such lists at most about 1 in 10 is wrong")
    expect(page.locator("main")).not_to_contain_text("None proven")
    expect(page.locator("thead")).not_to_contain_text("p (adjusted)")


def test_review_queue_is_worked_through_with_the_keyboard_alone(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/7"))
    total = page.locator("table.annotators tbody tr").count()
    expect(page.locator(".reviewed")).to_contain_text(f"Reviewed 0 of {total}")
    page.get_by_role("link", name="Begin the review").press("Enter")
    bar = page.locator(".review")
    expect(bar).to_contain_text(f"1 of {total}")
    first = page.locator("h1 bdi").inner_text()
    page.keyboard.press("j")
    expect(bar).to_contain_text(f"2 of {total}")
    page.keyboard.press("k")
    expect(page.locator("h1 bdi")).to_have_text(first)
    page.keyboard.press("c")
    expect(page.get_by_role("status")).to_contain_text(f"Confirmed: {first}")
    expect(page.get_by_role("status")).to_be_in_viewport()
    expect(bar).to_contain_text(f"reviewed 1 of {total}")
    page.keyboard.press("u")
    expect(page.locator("h1 bdi")).to_have_text(first)
    expect(bar).to_contain_text(f"reviewed 0 of {total}")
    expect(page.locator("#decisions tbody tr").first).to_contain_text("Withdrawn")
    for number, key in zip(range(1, total + 1), "cdw" * total, strict=False):
        page.keyboard.press(key)
        if number < total:
            expect(bar).to_contain_text(f"reviewed {number} of {total}")
    expect(page.locator(".reviewed")).to_contain_text(f"Reviewed {total} of {total}")
    page.goto(service.ui("projects/7/decisions"))
    expect(page.locator("main")).to_contain_text("The log is intact")


def test_review_bar_stays_in_sight_and_typing_a_comment_decides_nothing(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/1/annotator?id=33"))
    page.get_by_label("Comment").press_sequentially("cdw")
    expect(page.get_by_label("Comment")).to_have_value("cdw")
    page.mouse.wheel(0, 4000)
    expect(page.get_by_role("button", name="Confirm")).to_be_in_viewport()


@pytest.mark.parametrize(("width", "most"), [(1440, 640), (390, 700)])
def test_first_annotator_stands_on_the_first_screen(
    browser: Browser, service: Service, watch: Watch, width: int, most: int
) -> None:
    context = service.opened(browser, viewport={"width": width, "height": 844})
    context.on("page", watch.follow)
    page = context.new_page()
    page.goto(service.ui("projects/1?show=flagged"))
    first = page.locator("table.annotators tbody tr").first
    with_problem = first.bounding_box()
    problems = page.locator(".note.problem")
    n_problems = problems.count()
    problems.evaluate_all("boxes => boxes.forEach(box => box.remove())")
    box = first.bounding_box()
    assert box is not None
    assert with_problem is not None
    assert box["y"] <= most
    assert with_problem["y"] - box["y"] <= 90 * n_problems
    for tab in ("today", "ranking", "runs", "decisions", "settings"):
        page.goto(service.ui(f"projects/1/{tab}"))
        current = page.locator(".tabs [aria-current]").bounding_box()
        assert current is not None
        assert current["x"] >= 0
        assert current["x"] + current["width"] <= width
    context.close()


@pytest.mark.parametrize("width", [390, 768, 1024, 1280, 1440])
def test_no_page_is_wider_than_the_window(browser: Browser, service: Service, watch: Watch, width: int) -> None:
    context = service.opened(browser, viewport={"width": width, "height": 844})
    context.on("page", watch.follow)
    page = context.new_page()
    tabs = (
        "1?show=everybody",
        "2?show=everybody",
        "1/annotator?id=33",
        "7/ranking",
        "1/figures?form=paper",
        "2/decisions",
    )
    for path in ("", "status", *(f"projects/{tab}" for tab in tabs)):
        page.goto(service.ui(path))
        # The longest finding and name, wherever there are any.
        page.locator("tbody .badge").evaluate_all(
            "all => all.forEach(one => one.textContent = 'suspicious, not enough to flag')"
        )
        page.locator("tbody th bdi").evaluate_all("all => all.forEach(one => one.textContent += ' at example.org')")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (path, wide)
    context.close()


def test_table_head_stays_in_sight_while_scrolling(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/6?show=everybody"))
    page.mouse.wheel(0, 1200)
    expect(page.get_by_role("link", name="Lean (95 % interval)")).to_be_in_viewport()


def test_what_to_label_again_is_grouped_by_pair_with_probabilities(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/7/ranking"))
    rows = page.locator("section[aria-labelledby=again] tbody tr")
    expect(rows.first).to_contain_text(re.compile(r"\d+ tasks?"))
    told = [
        int(text.split()[0])
        for text in page.locator("td[data-label='Probability of this order']").all_inner_texts()
        if text.strip()
    ]
    assert told
    again = told[: rows.count()]
    assert all(50 <= share <= 95 for share in again)
    pairs = rows.locator("th").all_inner_texts()
    assert len(set(pairs)) == len(pairs)


def test_flagged_marks_in_figures_are_named_and_lead_to_the_annotator(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/7/figures"))
    chart = page.locator("[data-chart=lean] svg")
    link = chart.locator("a", has=page.locator("text")).first
    assert (link.text_content() or "").startswith("Person")
    assert "annotator?id=" in str(link.get_attribute("href") or link.get_attribute("xlink:href"))
    page.get_by_role("link", name="The paper's form").click()
    expect(page.locator("[data-chart=scatter] svg")).to_be_visible()
    page.goto(service.ui("projects/6/figures"))
    expect(page.locator("figcaption", has_text="drawn as a density")).to_be_visible()
    assert page.locator("[data-chart=lean] svg path[fill-opacity]").count() > 20
    ticks = page.locator("[data-chart=lean] [aria-label='y-axis tick label']")
    assert ticks.text_content() == "40"  # everybody gave forty answers
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(service.ui("projects/6/figures"))
    assert ticks.text_content() == "40"


def test_local_time_stands_beside_utc(browser: Browser, service: Service, watch: Watch) -> None:
    context = service.opened(browser, timezone_id="Asia/Tokyo", locale="en-GB")
    context.on("page", watch.follow)
    page = context.new_page()
    page.goto(service.ui("projects/1/annotator?id=33"))
    expect(page.locator("dl.figures time").first).to_have_text(re.compile(r"UTC \(.+ local\)"))
    context.close()


def test_printed_list_shows_the_whole_table(page: Page, service: Service) -> None:
    page.goto(service.ui("projects/6?show=everybody"))
    page.emulate_media(media="print")
    assert page.locator(".filters").is_hidden()
    clipped = page.evaluate(
        "() => [...document.querySelectorAll('.table')].filter(box => box.scrollWidth > box.clientWidth + 1).length"
    )
    assert clipped == 0
    pages = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
    assert 2 <= pages <= 8
