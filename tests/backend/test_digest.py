"""The weekly digest: once a week, by mail through a real SMTP server and to the chat, off by default."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from evenhand.errors import SettingsError
from evenhand.project_config import ProjectConfig
from evenhand.publish.digest import digest
from evenhand.settings import Settings

from tests.backend.test_notify import SETTINGS, World

MONDAY = 1_900_627_200.0  # 2030-03-25, 00:00 UTC
HOUR, DAY = 3600.0, 86400.0


class MailServer(socketserver.ThreadingTCPServer):
    """Speaks SMTP as far as smtplib asks for it, and keeps what it got."""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.got: list[tuple[list[str], bytes]] = []
        self.commands: list[str] = []
        self.answer = "250 kept"

    @property
    def url(self) -> str:
        return f"smtp://lead:s%40cret@127.0.0.1:{self.server_address[1]}"


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        people: list[str] = []
        self._say("220 ready")
        while line := self.rfile.readline().decode().rstrip("\r\n"):
            server.commands.append(line.split()[0].upper())
            word = line.split()[0].upper()
            if word == "EHLO":
                self._say("250-here", "250 AUTH PLAIN")
            elif word == "DATA":
                self._say("354 go on")
                text = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    text += part
                if server.answer.startswith("250"):
                    server.got.append((people, text))
                self._say(server.answer)
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                people += [line.partition("<")[2].rstrip(">")] if word == "RCPT" else []
                self._say("235 known" if word == "AUTH" else "250 yes")

    def _say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.now = MONDAY - DAY
    made.flag("17")
    yield made
    made.store.close()


def mailing(server: MailServer) -> Settings:
    return replace(
        SETTINGS,
        alert_webhook_url="",
        digest=True,
        smtp_url=server.url,
        digest_to="ana@example.com,ben@example.com",
        digest_from="evenhand@example.com",
    )


def test_mail_goes_out_once_a_week_from_monday_morning_on(world: World, server: MailServer) -> None:
    settings = mailing(server)
    world.now = MONDAY - HOUR
    assert world.send(settings=settings).sent == 1  # of the week that ends: the service was switched on in it
    world.now = MONDAY + HOUR
    assert world.send(settings=settings).sent == 0
    world.now = MONDAY + 7 * HOUR
    assert world.send(settings=settings).sent == 1
    for hours in (8, 30, 7 * 24 - 1):
        world.now = MONDAY + hours * HOUR
        assert world.send(settings=settings).sent == 0
    world.now = MONDAY + 7 * DAY + 7 * HOUR
    assert world.send(settings=settings).sent == 1
    people, text = server.got[1]
    message = message_from_bytes(text)
    payload = message.get_payload(decode=True)
    assert isinstance(payload, bytes)
    body = payload.decode()
    assert people == ["ana@example.com", "ben@example.com"]
    assert message["From"] == "evenhand@example.com"
    assert message["Subject"].startswith("Evenhand: week 20")
    assert "1 lasting flag, 1 to review" in body
    assert "Pairs <1>" in body
    assert "https://evenhand.test/ui/projects/" in body
    assert "AUTH" in server.commands


def test_nothing_is_sent_unless_it_is_switched_on(world: World, server: MailServer) -> None:
    world.now = MONDAY + 8 * HOUR
    assert world.send(settings=replace(mailing(server), digest=False)).queued == 0
    assert server.got == []


def test_refused_mail_is_a_problem_without_the_password_and_is_tried_again(world: World, server: MailServer) -> None:
    settings = mailing(server)
    server.answer = "451 later"
    world.now = MONDAY + 8 * HOUR
    assert world.send(settings=settings).failed == 1
    (problem,) = world.store.problems.find()
    assert problem.message == "the mail server answered 451"
    server.answer = "250 kept"
    world.now = MONDAY + 9 * HOUR
    assert world.send(settings=settings).sent == 1
    assert world.store.problems.find() == []


def test_chat_gets_the_same_lines_escaped(world: World) -> None:
    world.now = MONDAY + 8 * HOUR
    settings = replace(SETTINGS, digest=True)
    world.send(settings=settings)
    texts = [message["text"] for message in world.hook.messages()]
    assert sum(text.startswith("Evenhand, week to ") for text in texts) == 1
    assert all("<!channel>" not in text for text in texts)


def test_pseudonyms_hide_who_is_meant(world: World) -> None:
    assert "Ann" in digest(world.store, SETTINGS, MONDAY)
    config = ProjectConfig.model_validate({"publish": {"pseudonyms": True}})
    world.store.projects.set_config(world.project.id, config)
    text = digest(world.store, SETTINGS, MONDAY)
    assert "Ann" not in text
    assert "1 to review" in text


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"EVENHAND_DIGEST": "daily"}, "EVENHAND_DIGEST is 'daily'; expected weekly"),
        ({"EVENHAND_DIGEST": "weekly"}, "EVENHAND_DIGEST has no way out"),
        ({"EVENHAND_DIGEST_TO": "ana@example.com"}, "EVENHAND_SMTP_URL is empty while EVENHAND_DIGEST_TO is set"),
        (
            {"EVENHAND_DIGEST_TO": "ana@example.com", "EVENHAND_SMTP_URL": "http://user:hunter2@mail"},
            "EVENHAND_SMTP_URL is no address",
        ),
        ({"EVENHAND_DIGEST_TO": "ana", "EVENHAND_SMTP_URL": "smtp://mail"}, "EVENHAND_DIGEST_TO has 'ana'"),
    ],
)
def test_settings_that_do_not_fit_are_named(environment: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as error:
        Settings.from_env(environment)
    assert "hunter2" not in str(error.value)
