"""`connect`, `doctor` and `sync` against an in-memory Label Studio."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from evenhand.administer.connect import ConnectError, connect_project
from evenhand.administer.doctor import Check, examine
from evenhand.commands._service import examine_service
from evenhand.commands.connect import connect
from evenhand.commands.projects import sync
from evenhand.errors import UnusableValueError
from evenhand.label_studio.client import LabelStudioClient, ensure_webhook
from evenhand.label_studio.transport import LabelStudioMissingError, Transport
from evenhand.project_config import Publish, parse_config
from evenhand.publish.alerts import LABEL_CONFIG
from evenhand.settings import Settings
from evenhand.store import Store
from evenhand.store.runs import WORKER_SIGNS

from fdr_core.commands.doctor import doctor
from harness.databases import new_store
from harness.fake_label_studio import LEGACY_TOKEN, PERSONAL_TOKEN, URL, FakeLabelStudio

OURS = "http://127.0.0.1:9090"
WrongNow = Callable[[], dict[str, Check]]


@pytest.fixture
def server() -> FakeLabelStudio:
    server = FakeLabelStudio()
    server.now = datetime.fromtimestamp(time.time(), UTC)
    project = server.add_project("Pairs")
    server.annotate(server.add_task(project, {"text1": "a", "text2": "b", "id1": 1, "id2": 2}), 1, "left")
    return server


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        label_studio_url=URL,
        label_studio_api_key=LEGACY_TOKEN,
        basic_auth_user="lead",
        basic_auth_pass="p4ss",
        webhook_secret="s3cret",
        database_url=f"sqlite:///{tmp_path / 'evenhand.db'}",
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = new_store(tmp_path / "evenhand.db")
    for name in WORKER_SIGNS:
        store.leases.sign(name, "a worker")
    yield store
    store.close()


@pytest.fixture
def client(server: FakeLabelStudio) -> LabelStudioClient:
    return LabelStudioClient(Transport(URL, LEGACY_TOKEN, session=server.session(), sleep=lambda seconds: None))


@pytest.fixture(autouse=True)
def training(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `doctor` sends to the service, which does not run here and lets it through."""
    sent: list[dict[str, Any]] = []

    def knock(url: str, body: dict[str, Any], **options: Any) -> int:
        sent.append({"url": url, "body": body, **options})
        return 200

    monkeypatch.setattr("evenhand.administer.doctor.knock", knock)
    return sent


def make(store: Store, client: LabelStudioClient, settings: Settings, **values: Any) -> None:
    connect_project(store, client, settings, 1, values)


def test_connect_registers_backend_webhook_and_settings(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings
) -> None:
    made = connect_project(store, client, settings, 1, {"item_left": "id1", "item_right": "id2", "q": "0.2"})
    (backend,) = server.backends.values()
    assert (backend["url"], backend["auth_method"]) == (OURS, "BASIC_AUTH")
    assert (backend["basic_auth_user"], backend["basic_auth_pass"]) == ("lead", "p4ss")
    assert backend["extra_params"] == {}
    assert made.project.config["item_left"] == "id1"
    (hook,) = server.webhooks.values()
    assert (hook["url"], hook["headers"]) == (f"{OURS}/webhook", {"X-Evenhand-Secret": "s3cret"})
    assert (made.config.q, made.project.config["item_right"]) == (0.2, "id2")
    assert made.project.epoch == int(datetime.fromisoformat(server.projects[1]["created_at"]).timestamp())


def test_connect_takes_the_owners_word_on_sides_before_any_answer_is_read_and_sends_it_nowhere(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings
) -> None:
    made = connect_project(store, client, settings, 1, {"q": "0.2"}, sides="random")
    assert made.project.config["sides"] == "random"
    (backend,) = server.backends.values()
    assert backend["extra_params"] == {}
    assert connect_project(store, client, settings, 1, {}).project.config["sides"] == "random"


def test_connect_twice_changes_nothing_and_keeps_one_of_each(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings
) -> None:
    make(store, client, settings, q=0.2)
    again = connect_project(store, client, settings, 1, {})
    assert (again.backend_was_new, again.webhook_changed) == (False, False)
    assert (len(server.backends), len(server.webhooks), len(store.projects.all())) == (1, 1, 1)
    assert again.config.q == 0.2


def test_connect_replaces_an_old_secret_and_removes_duplicate_webhooks(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings
) -> None:
    client.create_webhook(1, f"{OURS}/webhook", {"X-Evenhand-Secret": "old", "X-Other": "kept"})
    client.create_webhook(1, f"{OURS}/webhook", {})
    client.create_webhook(1, "http://elsewhere.test/webhook", {})
    make(store, client, settings)
    assert [hook["url"] for hook in server.webhooks.values()] == [f"{OURS}/webhook", "http://elsewhere.test/webhook"]
    assert server.webhooks[1]["headers"] == {"X-Evenhand-Secret": "s3cret", "X-Other": "kept"}


@pytest.mark.parametrize(
    ("blocked", "setting"),
    [("blocks_local_webhooks", "SSRF_PROTECTION_ENABLED=false"), ("blocks_local_backends", "ML_BLOCK_LOCAL_IP=false")],
)
def test_connect_blocked_by_an_address_filter_names_both_settings_and_leaves_no_backend(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings, blocked: str, setting: str
) -> None:
    setattr(server, blocked, True)
    with pytest.raises(ConnectError) as caught:
        make(store, client, settings)
    assert caught.value.remedy.startswith(f"set {setting}")
    assert "SSRF_PROTECTION_ENABLED" in caught.value.remedy
    assert "ML_BLOCK_LOCAL_IP" in caught.value.remedy
    assert server.backends == server.webhooks == {}
    assert store.projects.all() == []


def test_connect_while_the_service_is_down_says_to_start_it(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings
) -> None:
    server.backend_is_down = True
    with pytest.raises(ConnectError, match="could not add") as caught:
        make(store, client, settings)
    assert "evenhand serve" in caught.value.remedy
    assert "EVENHAND_PUBLIC_URL" in caught.value.remedy


@pytest.mark.parametrize("values", [{"control": "nope"}, {"q": 2}, {"colour": "red"}])
def test_connect_with_wrong_settings_is_refused_before_anything_is_written(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings, values: dict[str, Any]
) -> None:
    with pytest.raises(UnusableValueError):
        make(store, client, settings, **values)
    assert server.count("POST") == 0
    assert store.projects.all() == []


def test_connect_to_our_own_alerts_project_is_refused(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings
) -> None:
    server.projects[1]["label_config"] = LABEL_CONFIG
    with pytest.raises(UnusableValueError, match="alert cards"):
        make(store, client, settings)


def test_connect_to_a_project_that_does_not_exist_raises(
    store: Store, client: LabelStudioClient, settings: Settings
) -> None:
    with pytest.raises(LabelStudioMissingError):
        connect_project(store, client, settings, 77, {})


def test_secret_of_a_backend_added_by_hand_goes_to_the_address_label_studio_uses(
    server: FakeLabelStudio, client: LabelStudioClient, settings: Settings
) -> None:
    client.create_ml_backend({"project": 1, "url": "http://host.docker.internal:9090/"})
    assert ensure_webhook(client, 1, settings)
    (hook,) = server.webhooks.values()
    assert hook["url"] == "http://host.docker.internal:9090/webhook"
    assert hook["headers"] == {"X-Evenhand-Secret": "s3cret"}
    assert not ensure_webhook(client, 1, settings)


def test_secret_is_not_sent_to_an_address_nobody_configured_when_several_are_possible(
    server: FakeLabelStudio, client: LabelStudioClient, settings: Settings
) -> None:
    for url in ("http://a.test:9090", "http://b.test:9090"):
        client.create_ml_backend({"project": 1, "url": url})
    assert not ensure_webhook(client, 1, settings)
    assert [hook["headers"] for hook in server.webhooks.values()] == [{}, {}]
    named = replace(settings, backend_url="http://b.test:9090")
    assert ensure_webhook(client, 1, named)
    assert server.webhooks[2]["headers"] == {"X-Evenhand-Secret": "s3cret"}


def failed(checks: list[Check]) -> dict[str, Check]:
    return {check.check: check for check in checks if not check.ok}


@pytest.fixture
def wrong_now(store: Store, client: LabelStudioClient, settings: Settings) -> WrongNow:
    """Connect the project; the function returned says what `doctor` finds wrong at that moment."""
    make(store, client, settings)
    return lambda: failed(examine(settings, store, client))


def test_doctor_after_connect_finds_all_well_and_writes_nothing(
    server: FakeLabelStudio,
    store: Store,
    client: LabelStudioClient,
    settings: Settings,
    training: list[dict[str, Any]],
) -> None:
    make(store, client, settings)
    stored = (dict(server.webhooks), dict(server.backends))
    checks = examine(settings, store, client)
    (sent,) = training
    assert (sent["url"], sent["auth"]) == (f"{OURS}/webhook", ("lead", "p4ss"))
    assert sent["headers"] == {"X-Evenhand-Probe": "1"}  # nothing is started
    assert failed(checks) == {}
    assert len(checks) >= 11
    assert (server.webhooks, server.backends) == stored


def test_doctor_without_token_names_the_variable(store: Store, settings: Settings) -> None:
    wrong = failed(examine(replace(settings, label_studio_api_key=""), store, None))
    assert "LABEL_STUDIO_API_KEY" in wrong["Label Studio"].fix


def test_doctor_with_revoked_token_says_how_to_make_a_new_one(
    server: FakeLabelStudio, store: Store, settings: Settings
) -> None:
    server.revoked = True
    transport = Transport(URL, PERSONAL_TOKEN, session=server.session(), sleep=lambda seconds: None)
    wrong = failed(examine(settings, store, LabelStudioClient(transport)))
    assert list(wrong) == ["token"]
    assert "Personal Access Token" in wrong["token"].fix


def test_doctor_with_label_studio_down_says_so_and_stops_there(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings
) -> None:
    server.break_connection(10)
    assert list(failed(examine(settings, store, client))) == ["Label Studio"]
    assert len(server.failures) == 9, "somebody waits for the checks, so nothing is tried twice"


@pytest.mark.parametrize(
    ("blocked", "setting"),
    [("blocks_local_webhooks", "SSRF_PROTECTION_ENABLED"), ("blocks_local_backends", "ML_BLOCK_LOCAL_IP")],
)
def test_doctor_tells_which_of_the_two_address_filters_is_in_the_way(
    server: FakeLabelStudio, wrong_now: WrongNow, blocked: str, setting: str
) -> None:
    setattr(server, blocked, True)
    wrong = wrong_now()
    assert list(wrong) == [setting]
    assert f"{setting}=false" in wrong[setting].fix


def break_webhook_missing(server: FakeLabelStudio) -> None:
    server.webhooks.clear()


def break_webhook_secret(server: FakeLabelStudio) -> None:
    server.webhooks[1]["headers"] = {}


def break_webhook_inactive(server: FakeLabelStudio) -> None:
    server.webhooks[1]["is_active"] = False


@pytest.mark.parametrize("damage", [break_webhook_missing, break_webhook_secret, break_webhook_inactive])
def test_doctor_finds_a_webhook_that_does_not_reach_us(
    server: FakeLabelStudio, wrong_now: WrongNow, damage: Any
) -> None:
    damage(server)
    wrong = wrong_now()
    assert list(wrong) == ["project 1: webhook"]
    assert "evenhand connect 1" in wrong["project 1: webhook"].fix


def test_doctor_finds_backend_missing_or_in_error(server: FakeLabelStudio, wrong_now: WrongNow) -> None:
    server.backends[1]["state"] = "ER"
    assert list(wrong_now()) == ["project 1: ML backend"]
    server.backends.clear()
    assert list(wrong_now()) == ["project 1: ML backend"]


def test_doctor_finds_that_events_never_arrive_while_pulls_repair(store: Store, wrong_now: WrongNow) -> None:
    store.projects.finish_pull(1, {"is_first": False, "repaired": 7}, watermark=1.0, was_full=False)
    wrong = wrong_now()
    assert list(wrong) == ["project 1: events"]
    assert "SSRF_PROTECTION_ENABLED" in wrong["project 1: events"].fix


def test_doctor_counts_rejected_events_until_one_is_accepted(store: Store, wrong_now: WrongNow) -> None:
    store.events.count("webhook", "unauthorized")
    assert list(wrong_now()) == ["rejected events"]
    store.events.count("ANNOTATION_CREATED", "accepted")
    assert wrong_now() == {}


def test_doctor_finds_clocks_that_differ(server: FakeLabelStudio, wrong_now: WrongNow) -> None:
    server.tick(3600)
    assert "NTP" in wrong_now()["clock"].fix


def test_doctor_findings_hold_no_secret(
    server: FakeLabelStudio, store: Store, client: LabelStudioClient, settings: Settings
) -> None:
    make(store, client, settings)
    server.webhooks[1]["headers"] = {"X-Evenhand-Secret": "another-secret"}
    text = str(examine(settings, store, client))
    for secret in (*settings.secrets(), "another-secret"):
        assert secret not in text


@pytest.fixture
def run(server: FakeLabelStudio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command with the environment of a service whose calls all end in the fake."""
    monkeypatch.setattr("evenhand.commands._service.Session", server.session)
    environment = {
        "LABEL_STUDIO_URL": URL,
        "LABEL_STUDIO_API_KEY": LEGACY_TOKEN,
        "EVENHAND_WEBHOOK_SECRET": "s3cret",
        "MODEL_DIR": str(tmp_path),
    }

    def invoke(command: Any, *arguments: str, answer: str = "", **changes: str) -> Result:
        return CliRunner().invoke(command, arguments, input=answer, env={**environment, **changes}, obj=examine_service)

    return invoke


def published(store: Store) -> Publish:
    return parse_config(store.projects.all()[0].config).publish


def test_connect_command_connects_and_pulls(run: Any) -> None:
    result = run(connect, "1", "--item-left", "id1", "--item-right", "id2")
    assert result.exit_code == 0, result.output
    assert "first pull: 1 annotations on 1 tasks" in result.output


def test_connect_command_keeps_the_word_on_sides_with_its_author_although_the_pull_fails(
    run: Any, server: FakeLabelStudio, store: Store
) -> None:
    server.refuse("GET", "/api/tasks$", status=500)
    assert run(connect, "1", "--sides", "shuffled", "--yes").exit_code == 1
    (project,) = store.projects.all()
    assert project.config["sides"] == "random"
    (line,) = store.statements.all(project.id)
    assert (line["sides"], bool(line["said_by"])) == ("shuffled", True)


def test_connect_command_asks_before_publishing_where_annotators_look(
    run: Any, server: FakeLabelStudio, store: Store
) -> None:
    result = run(connect, "1", "--publish", "alerts", answer="no\n")
    assert result.exit_code == 1
    assert "has no roles" in result.output
    assert server.backends == {}
    result = run(connect, "1", "--publish", "alerts", answer="pseudonyms\n")
    assert result.exit_code == 0, result.output
    assert published(store).pseudonyms


def test_connect_command_with_yes_or_predictions_only_does_not_ask(run: Any, store: Store) -> None:
    assert run(connect, "1", "--publish", "predictions").exit_code == 0
    assert run(connect, "1", "--publish", "all", "--yes").exit_code == 0
    assert (published(store).alerts, published(store).pseudonyms) == (True, True)
    assert "has no roles" in run(connect, "1", "--publish", "all", "--yes", "--names").output
    assert not published(store).pseudonyms


def test_connect_command_with_wrong_setting_exits_2_and_names_what_is_offered(run: Any) -> None:
    result = run(connect, "1", "--control", "nope")
    assert result.exit_code == 2
    assert "pw" in result.output


def test_connect_command_without_token_exits_2_with_the_variable(run: Any) -> None:
    result = run(connect, "1", LABEL_STUDIO_API_KEY="")
    assert result.exit_code == 2
    assert "LABEL_STUDIO_API_KEY is not set" in result.output


def test_connect_command_blocked_exits_1_with_the_fix(run: Any, server: FakeLabelStudio) -> None:
    server.blocks_local_webhooks = True
    result = run(connect, "1")
    assert result.exit_code == 1
    assert "What to do: set SSRF_PROTECTION_ENABLED=false" in result.output


def test_doctor_command_exit_code_tells_whether_all_is_well(run: Any, store: Store, server: FakeLabelStudio) -> None:
    run(connect, "1")
    assert run(doctor).exit_code == 0
    server.webhooks.clear()
    result = run(doctor)
    assert result.exit_code == 1
    assert "FAIL project 1: webhook" in result.output


def test_sync_command_says_what_was_repaired(run: Any, server: FakeLabelStudio) -> None:
    run(connect, "1")
    server.annotate(1, 1, "right")
    result = run(sync)
    assert result.exit_code == 0, result.output
    assert "1 added, 0 changed" in result.output


def test_sync_command_of_an_unknown_project_exits_1(run: Any, store: Store) -> None:
    result = run(sync, "5")
    assert result.exit_code == 1
    assert "no project with the Label Studio id 5 is connected" in result.output


WORDS = (
    '<View><Text name="a" value="$text1"/><Text name="b" value="$text2"/><Choices name="pref" toName="a">'
    '<Choice value="A is worse"/><Choice value="B is worse"/></Choices></View>'
)


def _words(server: FakeLabelStudio) -> None:
    server.projects[1]["label_config"] = WORDS
    value = {"choices": ["A is worse"]}
    server.annotations[1]["result"] = [{"from_name": "pref", "to_name": "a", "type": "choices", "value": value}]


def test_connect_prints_what_answers_mean_leaves_a_guess_as_a_problem_and_confirms_it_with_yes(
    server: FakeLabelStudio, store: Store, run: Any
) -> None:
    _words(server)
    result = run(connect, "1")
    assert "'A is worse'" in result.output
    assert "right                1 answers, such as task 1  (a guess: says that it is worse)" in result.output
    assert "guessed" in result.output
    (project,) = store.projects.all()
    assert project.config["control"] == "pref"
    assert "reading_guessed" in {problem.code for problem in store.problems.find(project.id)}
    assert run(connect, "1", "--yes").exit_code == 0
    (project,) = store.projects.all()
    assert project.config["answers"] == {"A is worse": "right", "B is worse": "left"}
    assert store.problems.find(project.id) == []
    assert run(connect, "1", "--answers", "A is worse=left,B is worse=right").exit_code == 0
    assert [row["outcome"] for row in store.comparisons.rows(project.id)] == [1.0]


def test_connect_leaves_a_changed_setup_to_the_owner(server: FakeLabelStudio, store: Store, run: Any) -> None:
    run(connect, "1")
    server.projects[1]["label_config"] = server.projects[1]["label_config"].replace('"pw"', '"better"')
    result = run(connect, "1", "--yes")
    assert "the labelling setup has changed" in result.output
    assert run(connect, "1", "--changed-setup", "anew").exit_code == 0
    (project,) = store.projects.all()
    assert project.config["control"] == "better|pw"
    assert store.problems.find(project.id) == []


def test_connect_without_a_way_back_pulls_only_and_doctor_agrees(
    server: FakeLabelStudio, store: Store, run: Any
) -> None:
    server.blocks_local_webhooks = True
    result = run(connect, "1", "--pull-only", "true")
    assert result.exit_code == 0, result.output
    assert "pull only:  nothing is registered in Label Studio; answers are fetched every 15" in result.output
    assert (server.webhooks, server.backends) == ({}, {})
    (project,) = store.projects.all()
    assert project.counts["judged"] == 1
    server.blocks_local_webhooks = False
    result = run(doctor)
    assert result.exit_code == 0, result.output
    assert "ok   project 1" in result.output


def test_doctor_prints_what_is_wrong_first_and_names_every_projects_problems(
    server: FakeLabelStudio, store: Store, run: Any
) -> None:
    run(connect, "1")
    second = server.add_project("More")
    run(connect, str(second))
    store.problems.open(store.projects.all()[0].id, "unreadable_answers", "3 answers cannot be judged", "say what")
    lines = run(doctor).output.splitlines()
    assert lines[0] == "FAIL project 1: unreadable_answers: 3 answers cannot be judged"
    assert lines[1].strip() == "fix: say what"
    assert lines[-2] == f"ok   project {second}"
    assert any("tried are" in line for line in lines)
