"""What is tried against the service, how often, and what must hold; each attack is one function."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import sqlite3
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.service import Service, event

NAME, PASSWORD, SECRET = "label-studio", "right-horse-battery", "hook-secret-0123456789"
JSON, FORM = {"Content-Type": "application/json"}, "application/x-www-form-urlencoded"
VARIABLES = {"BASIC_AUTH_USER": NAME, "BASIC_AUTH_PASS": PASSWORD, "EVENHAND_WEBHOOK_SECRET": SECRET}


@dataclass(frozen=True)
class Outcome:
    """What an attack came to."""

    tried: int
    held: bool
    seen: str


@dataclass(frozen=True)
class Scale:
    """How much of it: a few seconds in the tests, minutes in the long mode."""

    requests: int
    seconds: float
    clients: int


SHORT, LONG = Scale(300, 4.0, 60), Scale(10_000, 30.0, 200)
#: Bounds on times are promised for a quiet machine; the tests share theirs with others.
SLACK = float(os.environ.get("EVENHAND_ATTACK_SLACK", "1"))


def call(
    service: Service,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes, float]:
    """One request: status, answer, seconds; status 0 where the connection was refused or cut."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read(), time.perf_counter() - begun
    except (OSError, http.client.HTTPException):
        return 0, b"", time.perf_counter() - begun
    finally:
        connection.close()


def basic(name: str = NAME, password: str = PASSWORD) -> dict[str, str]:
    """The header of Basic credentials, Label Studio's own by default."""
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def send_event(service: Service, number: int) -> tuple[int, float]:
    """One honest event: status and seconds."""
    headers = {**JSON, "X-Evenhand-Secret": SECRET}
    status, _, seconds = call(service, "POST", "/webhook", event(number, 1, 1 + number % 40), headers)
    return status, seconds


def percentile(values: list[float], share: float) -> float:
    """The value below which this share lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("inf")


def memory(service: Service) -> float:
    """Megabytes of the service's processes."""
    assert service.process is not None
    family = [service.process, *service.process.children(recursive=True)]
    return sum(float(member.memory_info().rss) for member in family) / 1e6


@contextlib.contextmanager
def meanwhile(work: Callable[[], Any], threads: int = 1) -> Iterator[Counter[str]]:
    """Repeat work in threads while the block lasts; counts what it returned."""
    stop, seen, lock = threading.Event(), Counter[str](), threading.Lock()

    def repeat() -> None:
        while not stop.is_set():
            result = str(work())
            with lock:
                seen[result] += 1

    pool = [threading.Thread(target=repeat, daemon=True) for _ in range(threads)]
    for thread in pool:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in pool:
            thread.join(70)


def made_up_methods(service: Service, scale: Scale) -> Outcome:
    """Strangers with methods nobody knows: neither memory nor the number of metric series may grow."""
    before = memory(service)
    for number in range(scale.requests):
        call(service, f"M{number:X}", "/health")
    grown = memory(service) - before
    _, text, seconds = call(service, "GET", "/metrics", headers=basic())
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    held = series < 2000 and grown < 40 and seconds < 2.0 * SLACK
    return Outcome(scale.requests, held, f"{series} series, {grown:+.0f} MB, scrape {seconds:.2f} s")


def wrong_passwords(service: Service, scale: Scale) -> Outcome:
    """Sixteen connections that guess fifty times a second: honest events stay quick, guesses are turned away."""
    pause = 16 / 50.0

    def guess() -> int:
        status = call(service, "GET", "/api/v1/projects", headers=basic("admin", os.urandom(6).hex()))[0]
        time.sleep(pause)
        return status

    times = []
    with meanwhile(guess, 16) as seen:
        until = time.monotonic() + scale.seconds
        number = 0
        while time.monotonic() < until:
            number += 1
            status, seconds = send_event(service, number)
            times.append(seconds if status == 200 else float("inf"))
            time.sleep(0.02)
    p99 = percentile(times, 0.99)
    held = p99 < 0.2 * SLACK and set(seen) <= {"401", "429"} and seen["401"] <= 25 + 3 * scale.seconds
    return Outcome(sum(seen.values()), held, f"events p99 {p99 * 1000:.0f} ms; answers {dict(seen)}")


def locked_database(service: Service, scale: Scale) -> Outcome:
    """Somebody locks the database: every event is answered 503 within seconds, /health at once."""
    path = service.settings.database_url.removeprefix("sqlite:///")
    lock = sqlite3.connect(path, isolation_level=None, timeout=10)
    lock.execute("BEGIN IMMEDIATE")
    try:
        count = min(scale.clients, 40)
        with ThreadPoolExecutor(count) as pool:
            sent = [pool.submit(send_event, service, 500_000 + number) for number in range(count)]
            health = [call(service, "GET", "/health") for _ in range(20)]
            ready = call(service, "GET", "/ready")
            answers = [one.result() for one in sent]
    finally:
        lock.execute("ROLLBACK")
        lock.close()
    slowest, slowest_health = max(seconds for _, seconds in answers), max(seconds for *_, seconds in health)
    time.sleep(1.2)
    recovered = send_event(service, 600_000)[0] == 200 and call(service, "GET", "/ready")[0] == 200
    held = (
        {status for status, _ in answers} == {503}
        and slowest < 3.0 * SLACK
        and slowest_health < 0.5 * SLACK
        and ready[0] == 503
        and recovered
    )
    return Outcome(count, held, f"503 after at most {slowest:.1f} s, /health {slowest_health * 1000:.0f} ms")


def dripping_clients(service: Service, scale: Scale) -> Outcome:
    """Clients that send a byte now and then hold no thread: others are answered as ever."""
    with contextlib.ExitStack() as stack:
        drips = [
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port))) for _ in range(scale.clients)
        ]
        beginnings = (b"GET /ui/ HT", b"POST /webhook HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
        for number, drip in enumerate(drips):
            drip.sendall(beginnings[number % 2])
        times, number = [], 0
        until = time.monotonic() + scale.seconds
        while time.monotonic() < until:
            for drip in drips[number % 7 :: 7]:
                with contextlib.suppress(OSError):
                    drip.send(b"x")
            number += 1
            status, seconds = send_event(service, 700_000 + number)
            times.append(seconds if status == 200 else float("inf"))
            times.append(call(service, "GET", "/versions", headers=basic())[2])
    p99 = percentile(times, 0.99)
    return Outcome(scale.clients, p99 < 0.5 * SLACK, f"others p99 {p99 * 1000:.0f} ms")


def lingering_clients(service: Service, scale: Scale) -> Outcome:
    """Clients that have their answer, were told the connection ends, and never close it: nobody waits for them."""
    times = []
    with contextlib.ExitStack() as stack:
        for number in range(scale.clients):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=60))
            client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            client.recv(100)
            status, seconds = send_event(service, 800_000 + number)
            times.append(seconds if status == 200 else float("inf"))
    worst = max(times)
    return Outcome(scale.clients, worst < 0.5 * SLACK, f"others after at most {worst * 1000:.0f} ms")


def idle_connections(service: Service, scale: Scale) -> Outcome:
    """More connections than the server has room for, some between two requests, some within one: others get in."""
    count, ask = 6 * scale.clients + 1_000, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for number in range(count):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=10))
            with contextlib.suppress(OSError):
                idle.sendall(ask if number % 3 == 0 else ask[:-4])
                if number % 3 == 0:
                    idle.recv(1000)
        status, seconds = send_event(service, 900_000)
    return Outcome(count, status == 200 and seconds < 1.0 * SLACK, f"an event {seconds * 1000:.0f} ms")


def unread_bodies(service: Service, scale: Scale) -> Outcome:
    """Bodies far beyond the limit: the client reads its 413 although it still sends, and others are answered."""
    head = (
        b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 900000000\r\n"
    )
    head += f"Authorization: {basic()['Authorization']}\r\n\r\n".encode()
    statuses, times, count = Counter[str](), [], min(scale.clients, 100)
    for number in range(count):
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as client:
            with contextlib.suppress(OSError):
                client.sendall(head)
                for _ in range(20):
                    client.sendall(b"x" * 50_000)
            with contextlib.suppress(OSError):
                statuses[client.recv(100)[9:12].decode()] += 1
        times.append(send_event(service, 850_000 + number)[1])
    held = statuses == {"413": count} and max(times) < 0.5 * SLACK
    return Outcome(count, held, f"answers {dict(statuses)}, others after at most {max(times) * 1000:.0f} ms")


def large_predictions(service: Service, _scale: Scale) -> Outcome:
    """Nine megabytes of empty tasks: refused soon, without the memory."""
    before, worst = memory(service), 0.0
    for body in (b'{"tasks":[' + b"{}," * 3_000_000 + b"{}]}", b'{"tasks":[' + b"{}," * 20_000 + b"{}]}"):
        status, _, seconds = call(service, "POST", "/predict", body, {**JSON, **basic()})
        worst = max(worst, seconds if status == 413 else float("inf"))
    grown = memory(service) - before
    return Outcome(2, worst < 3.0 * SLACK and grown < 150, f"413 after {worst:.1f} s, {grown:+.0f} MB")


def forged_decisions(service: Service, scale: Scale) -> Outcome:
    """Events with the secret that claim decisions of the year 9999: the log stays as it is."""
    from evenhand.domain import ProjectRef
    from evenhand.store import open_store

    store = open_store(service.settings)
    try:
        watched = store.projects.register("", ProjectRef(1, 1_700_000_000))
        store.projects.register("", ProjectRef(77, 1_700_000_000), kind="alerts", alerts_for=watched.id)
        card = {"id": 5, "data": {"evenhand_project": watched.id, "evenhand_annotator": "1"}}
        choice = {"from_name": "decision", "to_name": "card", "type": "choices", "value": {"choices": ["Dismiss"]}}
        count = min(scale.requests, 200)
        for number in range(count):
            body = {
                "action": "ANNOTATION_CREATED",
                "annotation": {
                    "id": number + 1,
                    "task": 5,
                    "result": [choice],
                    "completed_by": number,
                    "updated_at": "9999-12-31T23:59:59Z",
                },
                "task": card,
                "project": {"id": 77, "created_at": "2023-11-14T22:13:20.000000Z"},
            }
            call(service, "POST", "/webhook", json.dumps(body).encode(), {**JSON, "X-Evenhand-Secret": SECRET})
        lines = store.decisions.page(watched.id).total
    finally:
        store.close()
    return Outcome(count, lines == 0, f"{lines} decisions")


def other_sites(service: Service, _scale: Scale) -> Outcome:
    """Changes asked for by pages of other sites, by no site, or by forms; and reading under other names."""
    setup = json.dumps({"project": "1.1700000000", "schema": "<View/>", "extra_params": {"q": 0.5}}).encode()
    right = basic()
    tries: list[tuple[dict[str, str], bytes]] = [
        ({**right, "Origin": origin, "Content-Type": kind}, setup)
        for origin in ("null", "https://evil.example", "http://127.0.0.1:1", "file://", "")
        for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded")
    ]
    tries += [
        ({**right, "Content-Type": kind}, setup) for kind in ("text/plain", "multipart/form-data; boundary=x", "")
    ]
    tries.append(({**right, "Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}, setup))
    answers = Counter(call(service, "POST", "/setup", body, headers)[0] for headers, body in tries)
    login = call(service, "POST", "/ui/login", b"name=a&password=b", {"Content-Type": FORM})[0]
    held = set(answers) <= {403, 415} and login == 403
    return Outcome(len(tries) + 1, held, f"answers {dict(answers)}, login without token {login}")


def label_studio_reads(service: Service, _scale: Scale) -> Outcome:
    """Label Studio's own credential asks for results, decisions, settings: refused everywhere."""
    paths = ("projects", "projects/1", "projects/1/annotators", "projects/1/decisions", "projects/1/ranking", "status")
    right = basic()
    answers = [call(service, "GET", f"/api/v1/{path}", headers=right)[0] for path in paths]
    answers += [call(service, "GET", path, headers=right)[0] for path in ("/ui/", "/ui/status", "/ui/projects/1")]
    body = b'{"annotator":"1","decision":"dismiss"}'
    for path, method in (("decisions", "POST"), ("runs", "POST"), ("config", "PATCH")):
        answers.append(call(service, method, f"/api/v1/projects/1/{path}", body, {**right, **JSON})[0])
    allowed = call(service, "GET", "/versions", headers=right)[0]
    return Outcome(len(answers), set(answers) == {403} and allowed == 200, f"answers {dict(Counter(answers))}")


def names_by_time(service: Service, _scale: Scale) -> Outcome:
    """The time of a refusal tells nothing about whether a name exists."""
    times: dict[str, list[float]] = {NAME: [], "nobody": []}
    for turn in range(8):
        for name in times:
            status, _, seconds = call(service, "GET", "/versions", headers=basic(name, f"wrong-{turn}"))
            if status == 401:
                times[name].append(seconds)
        time.sleep(1.1)
    known, unknown = (percentile(values, 0.5) for values in times.values())
    ratio = max(known, unknown) / max(1e-9, min(known, unknown))
    return Outcome(16, ratio < 3.0, f"median {known * 1000:.0f} and {unknown * 1000:.0f} ms")


def files_on_disk(service: Service, _scale: Scale) -> Outcome:
    """Other accounts of the machine look at the folder: nothing in it is theirs to read."""
    folder = Path(service.settings.model_dir)
    ours = [path for path in folder.iterdir() if path.name.startswith(("evenhand.db", "session.key"))]
    open_to_others = [path.name for path in (folder, *ours) if stat.S_IMODE(path.stat().st_mode) & 0o077]
    return Outcome(len(ours) + 1, not open_to_others, f"open to others: {open_to_others or 'none'}")


def torn_requests(service: Service, scale: Scale) -> Outcome:
    """Requests that contradict themselves, smuggle, or are cut off: refused or dropped, the next one is answered."""
    torn = (
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n",
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00" + b"\x00" * 500,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    )
    worst = b""
    count = max(len(torn), scale.requests // 10)
    for number in range(count):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", service.port), timeout=15) as raw:
            raw.sendall(torn[number % len(torn)])
            raw.shutdown(socket.SHUT_WR)
            status = raw.recv(100)[9:12]
            worst = max(worst, status)
    alive = call(service, "GET", "/health")[0] == 200
    return Outcome(count, alive and worst < b"500", f"highest status {worst.decode() or 'none'}")


ATTACKS: dict[str, Callable[[Service, Scale], Outcome]] = {
    "made-up-methods": made_up_methods,
    "wrong-passwords": wrong_passwords,
    "names-by-time": names_by_time,
    "forged-decisions": forged_decisions,
    "files-on-disk": files_on_disk,
    "locked-database": locked_database,
    "other-sites": other_sites,
    "label-studio-reads": label_studio_reads,
    "large-predictions": large_predictions,
    "dripping-clients": dripping_clients,
    "lingering-clients": lingering_clients,
    "idle-connections": idle_connections,
    "unread-bodies": unread_bodies,
    "torn-requests": torn_requests,
}


@contextlib.contextmanager
def attacked(folder: Path) -> Iterator[Service]:
    """A service that has seen one event."""
    service = Service(folder, VARIABLES, with_worker=False)  # the worker meets no strangers
    service.start()
    try:
        send_event(service, 999_999)
        yield service
    finally:
        service.stop()
        with contextlib.suppress(psutil.Error):
            service.log.close()
