"""The settings page without a browser: what is chosen stays, what does not fit is explained."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evenhand.domain import Batch, Project, plain_answer
from evenhand.project_config import parse_config
from evenhand.projects.reading import check_project
from evenhand.settings import Settings
from evenhand.store import Store
from flask.testing import FlaskClient

from fdr_core.option import Option
from fdr_core.options import OPTIONS
from harness import world
from harness.label_configs import TWO_QUESTIONS
from tests.backend.dashboard.browsing import get, post, settings_form, visible


def test_settings_sent_back_unchanged_change_nothing(client: FlaskClient, store: Store, judged: Project) -> None:
    path = f"/ui/projects/{judged.id}/settings"
    before = store.projects.get(judged.id).config
    assert post(client, path, **settings_form(get(client, path))).status_code == 302
    assert store.projects.get(judged.id).config == before
    assert "Nothing was changed" in get(client, path)


CHOSEN = [(option, value) for option in OPTIONS for value in (*option.choices, option.default)]


@pytest.mark.parametrize(("option", "value"), CHOSEN, ids=lambda part: getattr(part, "name", str(part)))
def test_saving_another_setting_keeps_what_was_chosen(
    fresh: tuple[FlaskClient, Store, Settings], option: Option, value: str
) -> None:
    """The owner's "not random" was once lost here, because the form did not offer it."""
    client, store, _ = fresh
    project = world.register(store, 1, "Kept")
    store.projects.set_config(project.id, parse_config({option.name: value}))
    path = f"/ui/projects/{project.id}/settings"
    form = {**settings_form(get(client, path)), "every_answers": "77"}
    assert post(client, path, **form).status_code == 302
    assert store.projects.get(project.id).config == parse_config({option.name: value, "every_answers": 77}).to_json()


def test_settings_changed_are_stored_and_empty_schedule_means_never(
    client: FlaskClient, store: Store, judged: Project
) -> None:
    path = f"/ui/projects/{judged.id}/settings"
    form = {**settings_form(get(client, path)), "q": "0.2", "every_minutes": "", "publish.tab": "on"}
    assert post(client, path, **form).status_code == 302
    config = store.projects.get(judged.id).config
    assert (config["q"], config["every_minutes"], config["publish"]["tab"]) == (0.2, None, True)


def test_several_controls_named_beside_a_pinned_one_are_judged_together(
    fresh: tuple[FlaskClient, Store, Settings],
) -> None:
    """The form sends the pinned control back, and nobody means by that that it decides."""
    client, store, _ = fresh
    project = world.register(store, 1, "Two questions", label_config=TWO_QUESTIONS)
    store.projects.set_config(project.id, parse_config({"control": "helpful"}))
    path = f"/ui/projects/{project.id}/settings"
    post(client, path, **{**settings_form(get(client, path)), "controls": "helpful, harmless"})
    assert "together" in get(client, path)
    assert store.projects.get(project.id).config["control"] is None
    post(client, path, **{**settings_form(get(client, path)), "control": "harmless"})
    assert "apart" in get(client, path)
    assert store.projects.get(project.id).config["control"] == "harmless"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"q": "10"}, "q must be a number between 0 and 1, such as 0.1; you typed 10"),
        ({"q": "lots"}, "q must be a number between 0 and 1, such as 0.1; you typed lots"),
        ({"every_minutes": "0"}, "every_minutes must be greater than or equal to 0.1; you typed 0"),
        ({"control": "nonsense"}, "has no control"),
        ({"answers": "{"}, "answers"),
        ({"lbi": "draws=-1"}, "lbi: draws was -1; expected a whole number from 1"),
        ({"lbi": "off", "decide_by": "lbi"}, "knockoff LBI was left out"),
        ({"lbi": "construction=magic"}, "construction was 'magic'; expected one of auto, flip, paper"),
    ],
)
def test_settings_that_do_not_fit_are_explained_and_kept_on_the_form(
    client: FlaskClient, store: Store, judged: Project, change: dict[str, str], said: str
) -> None:
    path = f"/ui/projects/{judged.id}/settings"
    before = store.projects.get(judged.id).config
    answer = post(client, path, **{**settings_form(get(client, path)), **change})
    assert answer.status_code == 422
    assert "Nothing was saved" in answer.text
    assert said in visible(answer.text).replace("&#39;", "'")
    assert store.projects.get(judged.id).config == before


WORDS = (
    '<View><Text name="a" value="$text1"/><Text name="b" value="$text2"/>'
    '<Choices name="pref" toName="a">{}</Choices></View>'
)


def _project_of_words(store: Store) -> Project:
    """A project whose words are a guess, and one answer that is not understood."""
    offered = "".join(f'<Choice value="{word}"/>' for word in ("A is worse", "B is worse"))
    project = world.register(store, 1, "Words", label_config=WORDS.format(offered))
    rows = [plain_answer(1, "7", "x", "y", -1.0, at=1.0), plain_answer(2, "7", "x", "y", 0.0, at=2.0)]
    unknown = replace(rows[1], word="Meh", status="unreadable", reason="answer 'Meh' is not understood", outcome=None)
    store.comparisons.apply(project.id, Batch(comparisons=[replace(rows[0], word="A is worse"), unknown]))
    check_project(store, store.projects.get(project.id))
    return store.projects.get(project.id)


def test_reading_shows_what_answers_mean_and_an_owner_corrects_it(
    fresh: tuple[FlaskClient, Store, Settings],
) -> None:
    client, store, _ = fresh
    project = _project_of_words(store)
    page = get(client, f"/ui/projects/{project.id}/settings")
    assert "says that it is worse" in page
    assert 'name="means 0" value=""' in page  # what is not understood stands first
    form = {"action": "save", "means 0": "tie", "means 1": "right", "means 2": "left"}
    assert post(client, f"/ui/projects/{project.id}/reading", **form).status_code == 302
    changed = store.projects.get(project.id)
    assert changed.config["answers"] == {"Meh": "tie", "A is worse": "right", "B is worse": "left"}
    assert changed.full_pull_needed
    assert "reading_guessed" not in {problem.code for problem in store.problems.find(project.id)}
    assert "A guess:" not in get(client, f"/ui/projects/{project.id}/settings")


def test_meaning_that_is_none_is_explained(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = _project_of_words(store)
    answer = post(client, f"/ui/projects/{project.id}/reading", action="save", **{"means 0": "whatever"})
    assert answer.status_code == 422
    assert "expected left, right, tie" in visible(answer.get_data(as_text=True))


def test_changed_setup_has_two_buttons(fresh: tuple[FlaskClient, Store, Settings]) -> None:
    client, store, _ = fresh
    project = _project_of_words(store)
    graded = "".join(f'<Choice value="{word}"/>' for word in ("A is worse", "A is much worse", "B is worse"))
    check_project(store, store.projects.describe(project.id, label_config=WORDS.format(graded)))
    assert "Keep the reading" in get(client, f"/ui/projects/{project.id}/settings")
    assert post(client, f"/ui/projects/{project.id}/reading", action="keep").status_code == 302
    assert "Keep the reading" not in get(client, f"/ui/projects/{project.id}/settings")
    assert post(client, f"/ui/projects/{project.id}/reading", action="anew").status_code == 302
    assert "A is much worse" in get(client, f"/ui/projects/{project.id}/settings")
