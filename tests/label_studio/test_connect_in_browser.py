"""From the welcome page to the first list: a stranger connects a project of a real Label Studio in a browser."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.label_studio import LabelStudioServer, Person
from tests.browser.conftest import Watch
from tests.label_studio.conftest import Stepped
from tests.label_studio.looking import Json, answer

pytestmark = [pytest.mark.labelstudio, pytest.mark.browser, pytest.mark.slow]

PROJECT, LEFT, TASKS = "Connected in a browser", 3, 90


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in which nothing may go wrong but the answers that are meant to be refused."""
    watch = Watch(expected=["404", "401"])
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(60_000)
    watch.follow(opened)
    yield opened
    opened.close()
    assert watch.complaints == []


def _tasks(crowd: list[Person], rng: random.Random) -> list[Json]:
    """Ten items in random order, judged by all; one person nearly always clicks left."""
    tasks = []
    for _ in range(TASKS):
        left, right = rng.sample(range(10), 2)
        honest = "left" if (left > right) != (rng.random() < 0.1) else "right"
        sides = ["left" if place == LEFT and rng.random() < 0.95 else honest for place in range(len(crowd))]
        answers = [answer(person, side) for person, side in zip(crowd, sides, strict=True)]
        tasks.append({"data": {"text1": f"caption {left}", "text2": f"caption {right}"}, "annotations": answers})
    return tasks


def test_project_connected_on_the_welcome_page_shows_its_first_list(
    label_studio: LabelStudioServer, evenhand: Stepped, crowd: list[Person], page: Page
) -> None:
    people = crowd[:6]
    number = label_studio.create_project(PROJECT, maximum_annotations=6)["id"]
    label_studio.import_tasks(number, _tasks(people, random.Random(5)))

    page.goto(f"{evenhand.url}/ui/")
    page.get_by_label("Name").fill("lead")
    page.get_by_label("Password").fill("l3ad-pass")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Nothing to judge yet")).to_be_visible()

    page.get_by_label("Project number").fill("99999")
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("check the project's id")
    expect(page.get_by_label("Project number")).to_have_value("99999")

    page.get_by_label("Project number").fill(str(number))
    page.get_by_label("How were the sides assigned?").select_option("shuffled")
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("Connected")
    expect(page.locator(".title")).to_contain_text(PROJECT)

    evenhand.round()  # the page renews itself
    expect(page.locator(".figures-line")).to_contain_text("1 flagged of 6 annotators", timeout=60_000)
    (row,) = page.locator("table.annotators tbody tr").all()
    expect(row).to_contain_text(people[LEFT].email)
    expect(row).to_contain_text(re.compile("(always|leans) left"))

    page.get_by_role("link", name="Projects", exact=True).click()
    expect(page.locator("tbody tr", has_text=PROJECT)).to_contain_text(str(6 * TASKS))
