"""Starts and drives a real Label Studio on a loopback port, for the end-to-end tests and the demo.

Label Studio lives in an environment of its own (`.label-studio/venv`; EVENHAND_LABEL_STUDIO_VENV overrides it).
Its first start runs migrations for about two minutes; the migrated data directory is kept in
`.label-studio/migrated` and copied for every later start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import requests

from harness.label_configs import PAIRWISE_SIDE_BY_SIDE
from harness.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
ADMIN_EMAIL = "admin@example.com"
ADMIN_PASSWORD = "Adm1n-pass!"
ADMIN_TOKEN = "0123456789abcdef0123456789abcdef01234567"
FIRST_START_SECONDS = 600.0
START_SECONDS = 300.0
SUBMIT_TRIES = 4
IMPORT_ATTEMPTS = 5


class LabelStudioServerError(RuntimeError):
    """Label Studio could not be started or refused what was asked of it."""


def environment_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the virtual environment Label Studio is installed in, whether or not it exists."""
    return Path(environ.get("EVENHAND_LABEL_STUDIO_VENV") or ROOT / ".label-studio" / "venv")


def is_installed(environ: Mapping[str, str] = os.environ) -> bool:
    """Say whether a Label Studio can be started here."""
    return (environment_folder(environ) / "bin" / "label-studio").exists()


def pairwise_result(side: str, control: str = "pw") -> list[dict[str, Any]]:
    """Return the result list Label Studio's own page writes for one choice of side."""
    return [{"value": {"selected": side}, "from_name": control, "to_name": control, "type": "pairwise"}]


@dataclass
class Person:
    """One Label Studio account with its own session, acting through the API as that person would."""

    base_url: str
    email: str
    password: str
    id: int = 0
    session: requests.Session = field(default_factory=requests.Session, repr=False)
    _access_token: str = field(default="", repr=False)

    def call(self, method: str, path: str, *, json: Any = None, ok: Sequence[int] = (200, 201, 204)) -> Any:
        """Call the API as this person and return the decoded answer; a refused call raises."""
        headers = {"X-CSRFToken": self.session.cookies.get("csrftoken") or "", "Referer": self.base_url}
        answer = self.session.request(method, self.base_url + path, json=json, headers=headers, timeout=120)
        if answer.status_code not in ok:
            raise LabelStudioServerError(f"{method} {path} answered {answer.status_code}: {answer.text[:300]}")
        return answer.json() if answer.content else None

    def log_in(self) -> Person:
        """Log in by the form, as a browser does."""
        self._form("/user/login/", {"email": self.email, "password": self.password})
        self.id = int(self.call("GET", "/api/current-user/whoami")["id"])
        return self

    def sign_up(self, invite: str) -> Person:
        """Make this account by an invitation link."""
        path = f"/user/signup/?token={invite}"
        self._form(path, {"email": self.email, "password": self.password, "allow_newsletters": "false"})
        self.id = int(self.call("GET", "/api/current-user/whoami")["id"])
        return self

    def _form(self, path: str, fields: Mapping[str, str]) -> None:
        self.session.get(self.base_url + path, timeout=60)
        data = {**fields, "csrfmiddlewaretoken": self.session.cookies.get("csrftoken") or ""}
        answer = self.session.post(
            self.base_url + path,
            data=data,
            headers={"Referer": self.base_url + path},
            allow_redirects=False,
            timeout=60,
        )
        if answer.status_code != 302:
            raise LabelStudioServerError(f"POST {path} answered {answer.status_code} instead of a redirect")

    def personal_access_token(self) -> str:
        """This person's personal access token; Label Studio hands out one, and shows it only once."""
        if not self._access_token:
            self._access_token = str(self.call("POST", "/api/token/")["token"])
        return self._access_token

    def annotate(self, task: int, side: str, *, lead_time: float = 4.0) -> dict[str, Any]:
        """Submit one choice of side and return the annotation."""
        return self.submit(task, pairwise_result(side), lead_time=lead_time)

    def submit(self, task: int, result: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """Submit any result for a task and return the annotation.

        On SQLite a busy Label Studio answers 500 ("database is locked"); a person then presses Submit again.
        """
        path, body = f"/api/tasks/{task}/annotations/", {"result": result, "ground_truth": False, **fields}
        for tries_left in reversed(range(SUBMIT_TRIES)):
            try:
                return dict(self.call("POST", path, json=body))
            except LabelStudioServerError as error:
                if " answered 500" not in str(error) or not tries_left:
                    raise
            time.sleep(1.0)
            for kept in self.call("GET", path):
                if kept["completed_by"] == self.id and _values(kept["result"]) == _values(result):
                    return dict(kept)
        raise AssertionError("the last try returns or raises")

    def edit(self, annotation: int, side: str) -> dict[str, Any]:
        """Change the chosen side of an annotation."""
        answer: dict[str, Any] = self.call(
            "PATCH", f"/api/annotations/{annotation}/", json={"result": pairwise_result(side)}
        )
        return answer


def _values(result: list[dict[str, Any]]) -> list[Any]:
    return [part["value"] for part in result]


class LabelStudioServer:
    """A Label Studio process of our own, with its own copy of a migrated data directory.

    `settings` are environment variables of Label Studio that replace the ones given here, for example
    `{"SSRF_PROTECTION_ENABLED": "true"}` to see what an installation that blocks local addresses does.
    """

    def __init__(
        self, data_dir: Path | None = None, *, port: int | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.environ = dict(os.environ)
        self.settings = dict(settings or {})
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._own_folder = data_dir is None
        self.data_dir = data_dir or Path(tempfile.mkdtemp(prefix="evenhand-label-studio-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.admin = Person(self.url, ADMIN_EMAIL, ADMIN_PASSWORD)

    def __enter__(self) -> LabelStudioServer:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self) -> LabelStudioServer:
        """Start it, wait until it is healthy, and log the administrator in."""
        if not (self.data_dir / "label_studio.sqlite3").exists():
            _copy_migrated(self.data_dir, self.environ)
        self._process = _launch(self.data_dir, self.port, self.environ, self.settings)
        try:
            _wait_until_healthy(self._process, self.url, self.data_dir, START_SECONDS)
            self.admin = Person(self.url, ADMIN_EMAIL, ADMIN_PASSWORD).log_in()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the process and keep its data."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def close(self) -> None:
        """End the process and remove the data directory if it was made for this server."""
        self.stop()
        if self._own_folder:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    @property
    def legacy_token(self) -> str:
        """The administrator's legacy token."""
        return ADMIN_TOKEN

    def personal_access_token(self) -> str:
        """The administrator's personal access token."""
        return self.admin.personal_access_token()

    def add_person(self, email: str, password: str = "Ann0tator-pass!") -> Person:
        """Invite somebody and sign them up."""
        invite = self.admin.call("GET", "/api/invite")["token"]
        return Person(self.url, email, password).sign_up(invite)

    def create_project(self, title: str, label_config: str = PAIRWISE_SIDE_BY_SIDE, **fields: Any) -> dict[str, Any]:
        """Create a project and return it."""
        body = {"title": title, "label_config": label_config, **fields}
        project: dict[str, Any] = self.admin.call("POST", "/api/projects/", json=body)
        return project

    def import_tasks(self, project: int, tasks: Sequence[Mapping[str, Any]]) -> list[int]:
        """Import tasks (each `{"data": …}`, optionally with annotations) and return their ids in the given order."""
        expected = sum(len(task.get("annotations", ())) for task in tasks)
        for _ in range(IMPORT_ATTEMPTS):
            answer = self.admin.call("POST", f"/api/projects/{project}/import?return_task_ids=true", json=list(tasks))
            if answer["annotation_count"] == expected:
                return [int(task) for task in answer["task_ids"]]
            # On a locked database Label Studio tries again by itself, by then without the annotations.
            for task in answer["task_ids"]:
                self.admin.call("DELETE", f"/api/tasks/{task}/")
        raise LabelStudioServerError(f"an import of {expected} annotations lost some {IMPORT_ATTEMPTS} times in a row")

    def export(self, project: int) -> list[dict[str, Any]]:
        """Return Label Studio's own JSON export of a project, unlabelled tasks included."""
        path = f"/api/projects/{project}/export?exportType=JSON&download_all_tasks=true"
        exported: list[dict[str, Any]] = self.admin.call("GET", path)
        return exported


@contextlib.contextmanager
def running(data_dir: Path | None = None, **options: Any) -> Iterator[LabelStudioServer]:
    """Run a Label Studio for the length of a with block."""
    with LabelStudioServer(data_dir, **options) as server:
        yield server


def _copy_migrated(target: Path, environ: Mapping[str, str]) -> None:
    """Copy the migrated data directory to the target, making it at first use."""
    cached = environment_folder(environ).parent / "migrated"
    if not (cached / "label_studio.sqlite3").exists():
        _migrate(cached, environ)
    shutil.copytree(cached, target, dirs_exist_ok=True)


def _migrate(cached: Path, environ: Mapping[str, str]) -> None:
    """Start Label Studio once on an empty directory and keep what it made."""
    cached.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="migrating-", dir=cached.parent))
    port = free_port()
    process = _launch(fresh, port, environ, {})
    try:
        _wait_until_healthy(process, f"http://127.0.0.1:{port}", fresh, FIRST_START_SECONDS)
    finally:
        _end(process)
    try:
        fresh.rename(cached)
    except OSError:
        # Somebody else finished first; their copy is as good as ours.
        shutil.rmtree(fresh, ignore_errors=True)


def _launch(
    data_dir: Path, port: int, environ: Mapping[str, str], settings: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start the server process in a group of its own, so that all it starts can be ended together."""
    program = environment_folder(environ) / "bin" / "label-studio"
    if not program.exists():
        raise LabelStudioServerError(
            f"no Label Studio at {program}; install requirements-label-studio.lock into a virtual environment "
            "there, or point EVENHAND_LABEL_STUDIO_VENV at one that has it"
        )
    data_dir.mkdir(parents=True, exist_ok=True)
    own = {
        "PATH": environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(data_dir),
        "LANG": "C.UTF-8",
        "ML_BLOCK_LOCAL_IP": "false",
        "SSRF_PROTECTION_ENABLED": "false",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        # It waits one second for whom it calls, and forgets an event that took longer: on a busy machine they would.
        **dict.fromkeys(("WEBHOOK_TIMEOUT", "ML_CONNECTION_TIMEOUT", "ML_TIMEOUT_HEALTH", "ML_TIMEOUT_SETUP"), "60"),
        **settings,
    }
    # Any other sub-command, even --help, may create data in the home directory or start a server of its own.
    command = [str(program), "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    command += ["--data-dir", str(data_dir), "--username", ADMIN_EMAIL, "--password", ADMIN_PASSWORD]
    command += ["--user-token", ADMIN_TOKEN, "--enable-legacy-api-token"]
    with (data_dir / "server.log").open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=data_dir,
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_until_healthy(process: subprocess.Popen[bytes], url: str, data_dir: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            tail = (data_dir / "server.log").read_text(errors="replace")[-2000:]
            raise LabelStudioServerError(f"Label Studio ended with {process.returncode} while starting:\n{tail}")
        with contextlib.suppress(requests.RequestException):
            if requests.get(url + "/health", timeout=2).ok:
                return
        time.sleep(0.2)
    raise LabelStudioServerError(f"Label Studio at {url} was not healthy after {seconds:.0f} s; see its server.log")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server and everything in its process group: politely first, then for certain."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
