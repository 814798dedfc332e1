"""An in-memory Label Studio behind a requests adapter: the parts of its API that the service calls, as it behaves."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
from requests.adapters import BaseAdapter

from harness.fake_task_list import listed
from harness.label_configs import PAIRWISE
from harness.responses import make_response, to_request

URL = "http://label-studio.test:8080"
LEGACY_TOKEN = "f" * 40
PERSONAL_TOKEN = "head.refresh.tail"
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

Handler = Callable[..., tuple[int, Any]]
Json = dict[str, Any]


class FakeLabelStudio(BaseAdapter):
    """Answers API calls from memory, counts them, and can be told to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.calls: list[tuple[str, str, Any]] = []
        self.authorizations: list[str] = []
        self.failures: list[Callable[[str, str], requests.Response | Exception | None]] = []
        self.projects: dict[int, Json] = {}
        self.tasks: dict[int, Json] = {}
        self.annotations: dict[int, Json] = {}
        self.predictions: dict[int, Json] = {}
        self.views: dict[int, Json] = {}
        self.webhooks: dict[int, Json] = {}
        self.backends: dict[int, Json] = {}
        self.users: dict[int, Json] = {1: _user(1, "admin@example.com")}
        self.access_tokens: set[str] = set()
        self.revoked = False
        self.blocks_local_backends = False
        self.backend_is_down = False
        self.blocks_local_webhooks = False
        self._ids: dict[str, int] = {}

    # -- what a test does to it

    def session(self) -> requests.Session:
        """A session whose calls all end here."""
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", self)
        session.mount("https://", self)
        return session

    def tick(self, seconds: float = 1.0) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def add_project(self, title: str = "Pairs", label_config: str = PAIRWISE, **fields: Any) -> int:
        """Make a project and return its id."""
        project = self._next("project")
        self.projects[project] = {
            "id": project,
            "title": title,
            "description": "",
            "label_config": label_config,
            "created_at": _text(self.now),
            "updated_at": _text(self.now),
            "maximum_annotations": 1,
            "token": "project-token",
            "task_data_password": "hunter2",
            **fields,
        }
        return project

    def add_task(self, project: int, data: Mapping[str, Any], *, overlap: int | None = None) -> int:
        """Make a task and return its id."""
        task = self._next("task")
        self.tick()
        self.tasks[task] = {
            "id": task,
            "project": project,
            "data": dict(data),
            "created_at": _text(self.now),
            "updated_at": _text(self.now),
            "overlap": overlap or self.projects[project]["maximum_annotations"],
            "is_labeled": False,
        }
        return task

    def add_user(self, email: str, first: str = "", last: str = "") -> int:
        """Make a user and return its id."""
        user = self._next("user", 2)
        self.users[user] = {**_user(user, email), "first_name": first, "last_name": last}
        return user

    def remove_user(self, user: int) -> None:
        """Delete an account: its answers stay and belong to nobody, and no time moves."""
        del self.users[user]
        for annotation in self.annotations.values():
            if annotation["completed_by"] == user:
                annotation["completed_by"] = None

    def annotate(self, task: int, user: int, result: Any, **fields: Any) -> int:
        """Submit an annotation and return its id; `result` may be a side."""
        annotation = self._next("annotation")
        self.tick()
        if isinstance(result, str):
            result = [{"value": {"selected": result}, "from_name": "pw", "to_name": "pw", "type": "pairwise"}]
        self.annotations[annotation] = {
            "id": annotation,
            "task": task,
            "project": self.tasks[task]["project"],
            "completed_by": user,
            "result": result,
            "was_cancelled": False,
            "ground_truth": False,
            "lead_time": 3.5,
            "created_at": _text(self.now),
            "updated_at": _text(self.now),
            "parent_prediction": None,
            **fields,
        }
        self._touch(task)
        return annotation

    def edit(self, annotation: int, side: str) -> None:
        """Change an annotation's side."""
        self.tick()
        row = self.annotations[annotation]
        row["result"] = [{"value": {"selected": side}, "from_name": "pw", "to_name": "pw", "type": "pairwise"}]
        row["updated_at"] = _text(self.now)
        self._touch(row["task"])

    def delete_annotation(self, annotation: int) -> None:
        """Remove an annotation."""
        self.tick()
        self._touch(self.annotations.pop(annotation)["task"])

    def delete_task(self, task: int) -> None:
        """Remove a task with all that hangs on it."""
        self.tick()
        del self.tasks[task]
        self.annotations = {k: a for k, a in self.annotations.items() if a["task"] != task}
        self.predictions = {k: p for k, p in self.predictions.items() if p["task"] != task}

    def count(self, method: str, pattern: str = "") -> int:
        """How many calls of this method and path were made."""
        return sum(1 for made, path, _ in self.calls if made == method and re.search(pattern, path))

    def fail(self, times: int, status: int, *, body: str = "", headers: Mapping[str, str] | None = None) -> None:
        """Answer the next calls with a status instead of carrying them out."""
        self.failures += [lambda method, path: make_response(status, body, headers)] * times

    def break_connection(self, times: int, error: type[requests.RequestException] = requests.ConnectionError) -> None:
        """Let the next calls end in a transport error."""
        self.failures += [lambda method, path: error("broken on purpose")] * times

    def fail_when(self, method: str, pattern: str, after: int = 0) -> None:
        """Break the connection for good, once `after` matching calls have been carried out."""
        left = [after]

        def judge(made: str, path: str) -> requests.Response | Exception | None:
            if made != method or not re.search(pattern, path):
                return None
            left[0] -= 1
            return requests.ConnectionError("broken on purpose") if left[0] < 0 else None

        self.judges.append(judge)

    def refuse(self, method: str, pattern: str, status: int = 400) -> None:
        """Answer every matching call with a status instead of carrying it out."""

        def judge(made: str, path: str) -> requests.Response | None:
            return make_response(status, "{}", None) if made == method and re.search(pattern, path) else None

        self.judges.append(judge)

    @property
    def judges(self) -> list[Callable[[str, str], requests.Response | Exception | None]]:
        """Standing conditions under which a call fails."""
        standing: list[Callable[[str, str], requests.Response | Exception | None]]
        standing = self.__dict__.setdefault("_judges", [])
        return standing

    # -- the adapter

    def send(self, request: requests.PreparedRequest, *_: Any, **options: Any) -> requests.Response:
        """Carry out one request."""
        parts = urlsplit(str(request.url))
        body = json.loads(request.body) if request.body else None
        for judge in [*([self.failures.pop(0)] if self.failures else []), *self.judges]:
            fault = judge(str(request.method), parts.path)
            if isinstance(fault, Exception):
                raise fault
            if fault is not None:
                self.calls.append((str(request.method), parts.path, body))
                return to_request(fault, request)
        self.calls.append((str(request.method), parts.path, body))
        authorization = request.headers.get("Authorization", "")
        self.authorizations.append(authorization)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        status, answer = self._route(str(request.method), parts.path, query, body, authorization)
        text = "" if answer is None else json.dumps(answer)
        return to_request(make_response(status, text, {"Date": _http_date(self.now)}), request)

    def close(self) -> None:
        """Nothing is held open."""

    def _route(self, method: str, path: str, query: Json, body: Any, authorization: str) -> tuple[int, Any]:
        if path == "/api/token/refresh":
            if self.revoked or body.get("refresh") != PERSONAL_TOKEN:
                return 401, {"detail": "Token is blacklisted"}
            token = f"access-{len(self.access_tokens)}"
            self.access_tokens.add(token)
            return 200, {"access": token}
        known = {f"Token {LEGACY_TOKEN}", *(f"Bearer {token}" for token in self.access_tokens)}
        if authorization not in known:
            return 401, {"detail": "Authentication credentials were not provided.", "id": "uuid"}
        for made, pattern, name in ROUTES:
            match = re.fullmatch(pattern, path)
            if made == method and match:
                handler: Handler = getattr(self, name)
                return handler(*map(int, match.groups()), query=query, body=body)
        return 404, {"detail": "Not found."}

    def _next(self, kind: str, first: int = 1) -> int:
        self._ids[kind] = self._ids.get(kind, first - 1) + 1
        return self._ids[kind]

    def _touch(self, task: int) -> None:
        row = self.tasks[task]
        done = sum(1 for a in self.annotations.values() if a["task"] == task and not a["was_cancelled"])
        row["is_labeled"] = done >= row["overlap"]
        row["updated_at"] = _text(self.now)

    # -- handlers

    def _version(self, *, query: Json, body: Any) -> tuple[int, Any]:
        return 200, {"release": "1.23.2"}

    def _whoami(self, *, query: Json, body: Any) -> tuple[int, Any]:
        return 200, self.users[1]

    def _list_users(self, *, query: Json, body: Any) -> tuple[int, Any]:
        return 200, list(self.users.values())

    def _list_projects(self, *, query: Json, body: Any) -> tuple[int, Any]:
        page, size = int(query["page"]), int(query["page_size"])
        rows = list(self.projects.values())
        end = page * size
        return 200, {"results": rows[end - size : end], "next": "more" if end < len(rows) else None}

    def _one_project(self, project: int, *, query: Json, body: Any) -> tuple[int, Any]:
        if project not in self.projects:
            return 404, {"detail": "No Project matches the given query."}
        annotations = [a for a in self.annotations.values() if a["project"] == project]
        counts = {
            "task_number": sum(1 for t in self.tasks.values() if t["project"] == project),
            "finished_task_number": sum(1 for t in self.tasks.values() if t["project"] == project and t["is_labeled"]),
            "total_annotations_number": sum(1 for a in annotations if not a["was_cancelled"]),
            "skipped_annotations_number": sum(1 for a in annotations if a["was_cancelled"]),
        }
        return 200, {**self.projects[project], **counts}

    def _create_project(self, *, query: Json, body: Any) -> tuple[int, Any]:
        return 201, self.projects[self.add_project(**body)]

    def _list_tasks(self, *, query: Json, body: Any) -> tuple[int, Any]:
        view = self.views[int(query["view"])]["data"] if "view" in query else None
        rows = listed((t for t in self.tasks.values() if t["project"] == int(query["project"])), query, view)
        if "include" in query:
            return 200, {"tasks": [{k: t[k] for k in query["include"].split(",")} for t in rows]}
        return 200, {"tasks": [self._with_annotations(t) for t in rows]}

    def _with_annotations(self, task: Json) -> Json:
        mine = [a for a in self.annotations.values() if a["task"] == task["id"]]
        return {**task, "annotations": mine, "drafts": [], "predictions": []}

    def _one_task(self, task: int, *, query: Json, body: Any) -> tuple[int, Any]:
        return (200, self._with_annotations(self.tasks[task])) if task in self.tasks else (404, {"detail": "gone"})

    def _delete_project(self, project: int, *, query: Json, body: Any) -> tuple[int, Any]:
        return _removed(self.projects, project)

    def _patch_task(self, task: int, *, query: Json, body: Any) -> tuple[int, Any]:
        if task not in self.tasks:
            return 404, {"detail": "gone"}
        self.tasks[task].update(body)
        self._touch(task)
        return 200, self.tasks[task]

    def _delete_task(self, task: int, *, query: Json, body: Any) -> tuple[int, Any]:
        if task not in self.tasks:
            return 404, {"detail": "gone"}
        self.delete_task(task)
        return 204, None

    def _import_tasks(self, project: int, *, query: Json, body: Any) -> tuple[int, Any]:
        return 201, {"task_ids": [self.add_task(project, task["data"]) for task in body]}

    def _list_predictions(self, *, query: Json, body: Any) -> tuple[int, Any]:
        return 200, _of_project(self.predictions, query)

    def _import_predictions(self, project: int, *, query: Json, body: Any) -> tuple[int, Any]:
        created = 0
        for entry in body:
            # Label Studio silently drops results whose to_name is not an object's name.
            named = all(part["to_name"] in ("left", "right") for part in entry["result"])
            if entry["task"] in self.tasks and named:
                prediction = self._next("prediction")
                self.predictions[prediction] = {"id": prediction, "project": project, **entry}
                created += 1
        return 201, {"created": created}

    def _patch_prediction(self, prediction: int, *, query: Json, body: Any) -> tuple[int, Any]:
        if prediction not in self.predictions:
            return 404, {"detail": "gone"}
        self.predictions[prediction].update(body)
        return 200, self.predictions[prediction]

    def _delete_prediction(self, prediction: int, *, query: Json, body: Any) -> tuple[int, Any]:
        return _removed(self.predictions, prediction)

    def _delete_model_version(self, project: int, *, query: Json, body: Any) -> tuple[int, Any]:
        gone = [
            k
            for k, p in self.predictions.items()
            if p["project"] == project and p["model_version"] == body["model_version"]
        ]
        for prediction in gone:
            del self.predictions[prediction]
        return 200, {"deleted_predictions": len(gone)}

    def _list_views(self, *, query: Json, body: Any) -> tuple[int, Any]:
        return 200, _of_project(self.views, query)

    def _create_view(self, *, query: Json, body: Any) -> tuple[int, Any]:
        view = self._next("view")
        self.views[view] = {"id": view, "project": int(query["project"]), "data": body["data"]}
        return 201, self.views[view]

    def _patch_view(self, view: int, *, query: Json, body: Any) -> tuple[int, Any]:
        if view not in self.views:
            return 404, {"detail": "gone"}
        self.views[view]["data"] = body["data"]
        return 200, self.views[view]

    def _delete_view(self, view: int, *, query: Json, body: Any) -> tuple[int, Any]:
        return _removed(self.views, view)

    def _list_webhooks(self, *, query: Json, body: Any) -> tuple[int, Any]:
        return 200, _of_project(self.webhooks, query)

    def _create_webhook(self, *, query: Json, body: Any) -> tuple[int, Any]:
        if self.blocks_local_webhooks:
            return 403, {"detail": "URL resolves to a reserved network address (block: 127.0.0.0/8)"}
        if not isinstance(body.get("send_payload", True), bool):
            return 400, {"detail": "Validation error"}
        webhook = self._next("webhook")
        self.webhooks[webhook] = {"id": webhook, "is_active": True, **body}
        return 201, self.webhooks[webhook]

    def _patch_webhook(self, webhook: int, *, query: Json, body: Any) -> tuple[int, Any]:
        self.webhooks[webhook].update(body)
        return 200, self.webhooks[webhook]

    def _delete_webhook(self, webhook: int, *, query: Json, body: Any) -> tuple[int, Any]:
        return _removed(self.webhooks, webhook)

    def _list_backends(self, *, query: Json, body: Any) -> tuple[int, Any]:
        return 200, _of_project(self.backends, query)

    def _create_backend(self, *, query: Json, body: Any) -> tuple[int, Any]:
        if self.blocks_local_backends:
            return 403, {"detail": "URL resolves to a reserved network address (block: 127.0.0.0/8)"}
        if isinstance(body.get("timeout"), str):
            return 400, {"detail": "Validation error"}
        if self.backend_is_down:
            return 400, {"detail": "Validation error", "validation_errors": {"non_field_errors": ["Can't connect"]}}
        backend = self._next("backend")
        self.backends[backend] = {"id": backend, "state": "CO", **body}
        url = body["url"].rstrip("/") + "/webhook"
        if not any(w["url"] == url and w["project"] == body["project"] for w in self.webhooks.values()):
            status, answer = self._create_webhook(
                query={}, body={"project": body["project"], "url": url, "headers": {}}
            )
            if status != 201:  # the row stays, as seen on a live instance
                return status, answer
        return 201, self.backends[backend]

    def _patch_backend(self, backend: int, *, query: Json, body: Any) -> tuple[int, Any]:
        self.backends[backend].update(body)
        return 200, self.backends[backend]


ROUTES = (
    ("GET", "/api/version", "_version"),
    ("GET", "/api/current-user/whoami", "_whoami"),
    ("GET", "/api/users/", "_list_users"),
    ("GET", "/api/projects/", "_list_projects"),
    ("POST", "/api/projects/", "_create_project"),
    ("GET", r"/api/projects/(\d+)/", "_one_project"),
    ("DELETE", r"/api/projects/(\d+)/", "_delete_project"),
    ("POST", r"/api/projects/(\d+)/import", "_import_tasks"),
    ("POST", r"/api/projects/(\d+)/import/predictions", "_import_predictions"),
    ("DELETE", r"/api/projects/(\d+)/model-versions/", "_delete_model_version"),
    ("GET", "/api/tasks", "_list_tasks"),
    ("GET", r"/api/tasks/(\d+)/", "_one_task"),
    ("PATCH", r"/api/tasks/(\d+)/", "_patch_task"),
    ("DELETE", r"/api/tasks/(\d+)/", "_delete_task"),
    ("GET", "/api/predictions/", "_list_predictions"),
    ("PATCH", r"/api/predictions/(\d+)/", "_patch_prediction"),
    ("DELETE", r"/api/predictions/(\d+)/", "_delete_prediction"),
    ("GET", "/api/dm/views/", "_list_views"),
    ("POST", "/api/dm/views/", "_create_view"),
    ("PATCH", r"/api/dm/views/(\d+)/", "_patch_view"),
    ("DELETE", r"/api/dm/views/(\d+)/", "_delete_view"),
    ("GET", "/api/webhooks/", "_list_webhooks"),
    ("POST", "/api/webhooks/", "_create_webhook"),
    ("PATCH", r"/api/webhooks/(\d+)/", "_patch_webhook"),
    ("DELETE", r"/api/webhooks/(\d+)/", "_delete_webhook"),
    ("GET", "/api/ml", "_list_backends"),
    ("POST", "/api/ml", "_create_backend"),
    ("PATCH", r"/api/ml/(\d+)", "_patch_backend"),
)


def _of_project(rows: Mapping[int, Json], query: Json) -> list[Json]:
    return [row for row in rows.values() if row["project"] == int(query["project"])]


def _removed(rows: dict[int, Json], number: int) -> tuple[int, Any]:
    return (204, None) if rows.pop(number, None) else (404, {"detail": "gone"})


def _user(user: int, email: str) -> Json:
    return {"id": user, "email": email, "first_name": "", "last_name": "", "username": email}


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _http_date(moment: datetime) -> str:
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")
