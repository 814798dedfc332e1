"""The client against an in-memory Label Studio: tokens, paging, retries, and answers that are not Label Studio's."""

import random
from datetime import timedelta

import pytest
import requests
from evenhand.label_studio.client import LabelStudioClient, client_from_settings, project_epoch
from evenhand.label_studio.transport import (
    LabelStudioAnswerError,
    LabelStudioError,
    LabelStudioForbiddenError,
    LabelStudioMissingError,
    LabelStudioRejectedError,
    LabelStudioTokenError,
    LabelStudioUnavailableError,
    LabelStudioUnreachableError,
    TokenKind,
    Transport,
    token_kind,
)
from evenhand.settings import Settings

from harness.fake_label_studio import LEGACY_TOKEN, PERSONAL_TOKEN, START, URL, FakeLabelStudio


class Clock:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def server() -> FakeLabelStudio:
    return FakeLabelStudio()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def client_of(server: FakeLabelStudio, clock: Clock, token: str = LEGACY_TOKEN) -> LabelStudioClient:
    transport = Transport(
        URL + "/", token, session=server.session(), sleep=clock.sleep, clock=clock, rng=random.Random(1)
    )
    return LabelStudioClient(transport)


def test_token_kind_of_jwt_word_and_nothing_is_told_apart() -> None:
    assert token_kind("a.b.c") is TokenKind.PERSONAL
    assert token_kind("0" * 40) is TokenKind.LEGACY
    assert token_kind("") is TokenKind.NONE


def test_legacy_token_is_sent_as_token(server: FakeLabelStudio, clock: Clock) -> None:
    assert client_of(server, clock).version() == "1.23.2"
    assert server.authorizations == [f"Token {LEGACY_TOKEN}"]


def test_personal_token_is_exchanged_once_and_renewed_before_it_ends(server: FakeLabelStudio, clock: Clock) -> None:
    client = client_of(server, clock, PERSONAL_TOKEN)
    client.version()
    client.version()
    clock.now += 239
    client.version()
    assert server.count("POST", "/api/token/refresh") == 1
    clock.now += 2
    client.version()
    assert server.count("POST", "/api/token/refresh") == 2
    assert server.authorizations[-1] == "Bearer access-1"


def test_personal_token_access_ended_early_is_renewed_and_the_call_repeated(
    server: FakeLabelStudio, clock: Clock
) -> None:
    client = client_of(server, clock, PERSONAL_TOKEN)
    client.version()
    server.access_tokens.clear()
    server.access_tokens.add("somebody else's")
    assert client.version() == "1.23.2"


def test_personal_token_revoked_raises_token_error_without_the_token(server: FakeLabelStudio, clock: Clock) -> None:
    server.revoked = True
    with pytest.raises(LabelStudioTokenError, match="expired or revoked") as caught:
        client_of(server, clock, PERSONAL_TOKEN).version()
    assert PERSONAL_TOKEN not in str(caught.value)


def test_wrong_legacy_token_raises_token_error_naming_its_kind(server: FakeLabelStudio, clock: Clock) -> None:
    with pytest.raises(LabelStudioTokenError, match="legacy token"):
        client_of(server, clock, "0" * 40).version()


def test_error_body_that_echoes_the_token_is_scrubbed(server: FakeLabelStudio, clock: Clock) -> None:
    server.fail(1, 400, body=f'{{"detail": "bad header Token {LEGACY_TOKEN}"}}')
    with pytest.raises(LabelStudioRejectedError, match=r"\[secret\]") as caught:
        client_of(server, clock).version()
    assert LEGACY_TOKEN not in str(caught.value)


def project_in_pages_of_three(
    server: FakeLabelStudio, monkeypatch: pytest.MonkeyPatch, *, n_tasks: int
) -> tuple[int, list[int]]:
    monkeypatch.setattr("evenhand.label_studio.client.PAGE_SIZE", 3)
    project = server.add_project()
    return project, [server.add_task(project, {"text1": "a", "text2": "b"}) for _ in range(n_tasks)]


def test_tasks_over_several_pages_are_all_returned_once(
    server: FakeLabelStudio, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, expected = project_in_pages_of_three(server, monkeypatch, n_tasks=7)
    pages = list(client_of(server, clock).tasks(project))
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [task["id"] for page in pages for task in page] == expected


def test_tasks_deleted_while_paging_does_not_skip_others(
    server: FakeLabelStudio, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, ids = project_in_pages_of_three(server, monkeypatch, n_tasks=6)
    seen = []
    for page in client_of(server, clock).tasks(project):
        seen += [task["id"] for task in page]
        server.delete_task(ids[0]) if ids[0] in server.tasks else None
    assert seen == ids


def test_tasks_since_a_moment_returns_only_those_changed(server: FakeLabelStudio, clock: Clock) -> None:
    project = server.add_project()
    old, new = (server.add_task(project, {"text1": "a", "text2": "b"}) for _ in range(2))
    server.tick(100)
    server.annotate(new, 1, "left")
    pages = client_of(server, clock).tasks(project, updated_since=START + timedelta(seconds=50))
    assert [task["id"] for page in pages for task in page] == [new]
    assert old != new


def test_task_states_tells_completed_from_open(server: FakeLabelStudio, clock: Clock) -> None:
    project = server.add_project()
    done, still_open = (server.add_task(project, {"text1": "a", "text2": "b"}) for _ in range(2))
    server.annotate(done, 1, "left")
    assert client_of(server, clock).task_states(project) == {done: True, still_open: False}


def test_projects_over_several_pages_are_all_returned(server: FakeLabelStudio, clock: Clock) -> None:
    ids = [server.add_project(f"project {i}") for i in range(205)]
    assert [project["id"] for project in client_of(server, clock).projects()] == ids


def test_get_answered_500_twice_is_repeated_with_growing_pauses(server: FakeLabelStudio, clock: Clock) -> None:
    server.fail(2, 500)
    assert client_of(server, clock).version() == "1.23.2"
    assert len(clock.pauses) == 2
    assert 0.5 <= clock.pauses[0] <= 1.0 <= clock.pauses[1] <= 2.0


def test_retry_after_is_honoured_and_capped(server: FakeLabelStudio, clock: Clock) -> None:
    server.fail(1, 429, headers={"Retry-After": "7"})
    server.fail(1, 503, headers={"Retry-After": "86400"})
    client_of(server, clock).version()
    assert clock.pauses == [7.0, 60.0]


def test_500_for_ever_raises_unavailable_after_four_attempts(server: FakeLabelStudio, clock: Clock) -> None:
    server.fail(10, 502, body="<html>bad gateway</html>")
    with pytest.raises(LabelStudioUnavailableError, match="no JSON"):
        client_of(server, clock).version()
    assert len(server.calls) == 4


def test_post_answered_500_is_not_repeated_since_it_may_have_been_done(server: FakeLabelStudio, clock: Clock) -> None:
    server.fail(1, 500)
    with pytest.raises(LabelStudioUnavailableError):
        client_of(server, clock).create_project({"title": "Once only"})
    assert len(server.calls) == 1


def test_post_answered_429_is_repeated(server: FakeLabelStudio, clock: Clock) -> None:
    server.fail(1, 429)
    client_of(server, clock).create_project({"title": "Once only"})
    assert [project["title"] for project in server.projects.values()] == ["Once only"]


@pytest.mark.parametrize("error", [requests.ConnectionError, requests.ReadTimeout])
def test_no_connection_raises_unreachable_after_four_attempts(
    server: FakeLabelStudio, clock: Clock, error: type[requests.RequestException]
) -> None:
    server.break_connection(4, error)
    with pytest.raises(LabelStudioUnreachableError, match=URL):
        client_of(server, clock).version()
    assert len(clock.pauses) == 3


def test_html_with_status_200_raises_answer_error(server: FakeLabelStudio, clock: Clock) -> None:
    server.fail(1, 200, body="<html>Please log in</html>")
    with pytest.raises(LabelStudioAnswerError, match="text/html instead of JSON"):
        client_of(server, clock).version()


def test_redirect_is_not_followed_and_names_the_target_host_only(server: FakeLabelStudio, clock: Clock) -> None:
    server.fail(1, 302, headers={"Location": "https://elsewhere.test/login?next=secret"})
    with pytest.raises(LabelStudioAnswerError, match=r"redirected to https://elsewhere\.test;") as caught:
        client_of(server, clock).version()
    assert len(server.calls) == 1
    assert "LABEL_STUDIO_URL" in caught.value.remedy


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, LabelStudioRejectedError),
        (403, LabelStudioForbiddenError),
        (404, LabelStudioMissingError),
        (409, LabelStudioRejectedError),
    ],
)
def test_refusal_raises_its_own_error(
    server: FakeLabelStudio, clock: Clock, status: int, expected: type[LabelStudioError]
) -> None:
    server.fail(1, status, body='{"detail": "no", "id": "uuid"}')
    with pytest.raises(expected, match=f"answered {status}: no"):
        client_of(server, clock).version()


@pytest.mark.parametrize("body", ["[]", '{"tasks": 3}', '{"tasks": [3]}', '{"tasks": [{"id": "x"}]}'])
def test_tasks_of_a_wrong_shape_raise_answer_error(server: FakeLabelStudio, clock: Clock, body: str) -> None:
    server.fail(1, 200, body=body)
    with pytest.raises(LabelStudioAnswerError):
        list(client_of(server, clock).tasks(1))


def test_predictions_silently_dropped_raise_answer_error(server: FakeLabelStudio, clock: Clock) -> None:
    project = server.add_project()
    task = server.add_task(project, {"text1": "a", "text2": "b"})
    result = [{"value": {"selected": "left"}, "from_name": "pw", "to_name": "pw", "type": "pairwise"}]
    with pytest.raises(LabelStudioAnswerError, match="created 0 of 1"):
        client_of(server, clock).import_predictions(project, [{"task": task, "result": result, "model_version": "m"}])


def test_delete_of_something_gone_is_fine(server: FakeLabelStudio, clock: Clock) -> None:
    client = client_of(server, clock)
    client.delete_task(99)
    client.delete_webhook(99)
    client.delete_prediction(99)
    assert server.count("DELETE") == 3


def test_server_time_is_label_studios_clock(server: FakeLabelStudio, clock: Clock) -> None:
    client = client_of(server, clock)
    client.version()
    assert client.server_time == START


def test_project_epoch_is_the_second_of_creation() -> None:
    assert project_epoch({"created_at": "2026-11-16T04:27:04.324701Z"}) == 1794803224


def test_project_epoch_without_creation_time_raises_answer_error() -> None:
    with pytest.raises(LabelStudioAnswerError, match="created_at"):
        project_epoch({"id": 3})


def test_client_from_settings_without_token_is_none(server: FakeLabelStudio) -> None:
    assert client_from_settings(Settings(label_studio_url=URL), server.session()) is None
    client = client_from_settings(Settings(label_studio_url=URL, label_studio_api_key=LEGACY_TOKEN), server.session())
    assert client is not None
    assert client.version() == "1.23.2"
