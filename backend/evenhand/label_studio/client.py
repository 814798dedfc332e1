"""The outgoing client: each call of Label Studio's API that this service makes, and no other."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import requests

from evenhand.json_values import clean
from evenhand.label_studio.transport import (
    Json,
    LabelStudioAnswerError,
    LabelStudioError,
    LabelStudioMissingError,
    LabelStudioRejectedError,
    LabelStudioUnavailableError,
    LabelStudioUnreachableError,
    Timeout,
    TokenKind,
    Transport,
)
from evenhand.settings import SECRET_HEADER, Settings

PAGE_SIZE = 200
STATE_PAGE_SIZE = 5000
PREDICTION_BATCH = 500
SLOW: Timeout = (5.0, 600.0)  # exports and bulk deletions of large projects


def client_from_settings(settings: Settings, session: requests.Session) -> "LabelStudioClient | None":
    """The client the environment describes, or None where no Label Studio is configured."""
    if not settings.label_studio_url or not settings.label_studio_api_key:
        return None
    return LabelStudioClient(Transport(settings.label_studio_url, settings.label_studio_api_key, session=session))


def project_epoch(project: Mapping[str, Any]) -> int:
    """The creation second of a project, as Label Studio writes it behind the id in `/setup`."""
    try:
        return int(datetime.fromisoformat(str(project["created_at"])).timestamp())
    except (KeyError, ValueError):
        raise LabelStudioAnswerError(
            f"project {project.get('id')!r} came without a readable created_at: {project.get('created_at')!r}"
        ) from None


class LabelStudioClient:
    """Typed access to one Label Studio; every method raises LabelStudioError and nothing else."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._call = transport.call

    def hurried(self) -> "LabelStudioClient":
        """The same client without second attempts, for somebody who waits for the answer."""
        return LabelStudioClient(self._transport.hurried())

    @property
    def url(self) -> str:
        """The only address this client calls."""
        return self._transport.url

    @property
    def token_kind(self) -> TokenKind:
        """Which kind of token is configured."""
        return self._transport.token_kind

    @property
    def server_time(self) -> datetime | None:
        """Label Studio's clock as of its last answer."""
        return self._transport.server_time

    # -- the installation and its people

    def version(self) -> str:
        """Label Studio's release."""
        return str(self._object("GET", "/api/version").get("release", "unknown"))

    def is_up(self) -> bool:
        """Whether Label Studio answers at all, whatever it answers."""
        try:
            self.version()
        except (LabelStudioUnreachableError, LabelStudioUnavailableError):
            return False
        except LabelStudioError:
            return True
        return True

    def who_am_i(self) -> Json:
        """The user the token belongs to."""
        return self._object("GET", "/api/current-user/whoami")

    def users(self) -> list[Json]:
        """All users of the organisation."""
        return self._objects("GET", "/api/users/")

    # -- projects

    def projects(self) -> Iterator[Json]:
        """All projects the user can see, page by page."""
        page = 1
        while True:
            answer = self._object("GET", "/api/projects/", params={"page": page, "page_size": 100})
            yield from _objects_in(answer.get("results"), "/api/projects/")
            if not answer.get("next"):
                return
            page += 1

    def project(self, project: int) -> Json:
        """One project with its counts."""
        return self._object("GET", f"/api/projects/{project}/")

    def create_project(self, fields: Json) -> Json:
        """Make a project."""
        return self._object("POST", "/api/projects/", json=fields)

    def delete_project(self, project: int) -> None:
        """Remove a project; one that is already gone is fine."""
        self._delete(f"/api/projects/{project}/")

    # -- tasks and annotations

    def task(self, task: int) -> Json:
        """One task with its data and annotations."""
        return self._object("GET", f"/api/tasks/{task}/")

    def tasks(self, project: int, *, updated_since: datetime | None = None) -> Iterator[list[Json]]:
        """Tasks with data and annotations, in pages by ascending id; optionally only those changed since a moment."""
        filters: list[Json] = []
        if updated_since is not None:
            moment = updated_since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            filters.append(task_filter("updated_at", "greater_or_equal", "Datetime", moment))
        yield from self._task_pages(project, filters, {"fields": "all", "page_size": PAGE_SIZE})

    def tasks_with(self, project: int, field: str) -> Iterator[Json]:
        """The tasks whose data have this field."""
        filters = [task_filter(f"data.{field}", "empty", "String", False)]
        pages = self._task_pages(project, filters, {"fields": "all", "page_size": PAGE_SIZE})
        return (task for page in pages for task in page)

    def task_states(self, project: int) -> dict[int, bool]:
        """For every task that exists: whether Label Studio regards it as completed."""
        options: dict[str, str | int] = {
            "fields": "task_only",
            "include": "id,is_labeled",
            "page_size": STATE_PAGE_SIZE,
        }
        pages = self._task_pages(project, [], options)
        return {int(task["id"]): bool(task.get("is_labeled")) for page in pages for task in page}

    def _task_pages(self, project: int, filters: list[Json], options: dict[str, str | int]) -> Iterator[list[Json]]:
        """Page by "id greater than the last one seen": unlike page numbers, sound while tasks come and go."""
        last = 0
        while True:
            after = task_filter("id", "greater", "Number", last)
            query = {"filters": {"conjunction": "and", "items": [*filters, after]}, "ordering": ["tasks:id"]}
            params = {"project": project, "page": 1, "query": json.dumps(query), **options}
            answer = self._object("GET", "/api/tasks", params=params, timeout=SLOW)
            page = _objects_in(answer.get("tasks"), "/api/tasks")
            if not page:
                return
            ids = [task.get("id") for task in page]
            highest = max((i for i in ids if isinstance(i, int)), default=0)
            if highest <= last:
                raise LabelStudioAnswerError(f"/api/tasks answered ids {ids[:3]}… although ids above {last} were asked")
            yield page
            last = highest
            if len(page) < int(options["page_size"]):
                return

    def import_tasks(self, project: int, tasks: Sequence[Json]) -> list[int]:
        """Add tasks and return their ids in the given order."""
        path = f"/api/projects/{project}/import"
        answer = self._object("POST", path, params={"return_task_ids": "true"}, json=list(tasks), timeout=SLOW)
        ids = answer.get("task_ids")
        if not isinstance(ids, list) or len(ids) != len(tasks):
            raise LabelStudioAnswerError(f"POST {path} did not answer one id for each of {len(tasks)} tasks")
        return [int(task) for task in ids]

    def update_task(self, task: int, fields: Json) -> Json:
        """Change a task; `data` replaces the whole of it."""
        return self._object("PATCH", f"/api/tasks/{task}/", json=fields)

    def delete_task(self, task: int) -> None:
        """Remove a task; one that is already gone is fine."""
        self._delete(f"/api/tasks/{task}/")

    # -- webhooks and ML backends

    def webhooks(self, project: int) -> list[Json]:
        """The webhooks of a project."""
        return self._objects("GET", "/api/webhooks/", params={"project": project})

    def create_webhook(self, project: int, url: str, headers: Mapping[str, str]) -> Json:
        """Let all events of a project be sent to an address."""
        fields = {"project": project, "url": url, "headers": dict(headers)}
        return self._object(
            "POST", "/api/webhooks/", json={**fields, "send_payload": True, "send_for_all_actions": True}
        )

    def update_webhook(self, webhook: int, fields: Json) -> Json:
        """Change a webhook (Label Studio wants its url among the fields)."""
        return self._object("PATCH", f"/api/webhooks/{webhook}/", json=fields)

    def delete_webhook(self, webhook: int) -> None:
        """Remove a webhook; one that is already gone is fine."""
        self._delete(f"/api/webhooks/{webhook}/")

    def ml_backends(self, project: int) -> list[Json]:
        """The ML backends of a project."""
        return self._objects("GET", "/api/ml", params={"project": project})

    def create_ml_backend(self, fields: Json) -> Json:
        """Add an ML backend; Label Studio calls its /health and /setup before it answers."""
        return self._object("POST", "/api/ml", json=fields)

    def update_ml_backend(self, backend: int, fields: Json) -> Json:
        """Change an ML backend."""
        return self._object("PATCH", f"/api/ml/{backend}", json=fields)

    def delete_ml_backend(self, backend: int) -> None:
        """Remove an ML backend; one that is already gone is fine."""
        self._delete(f"/api/ml/{backend}")

    def probe_backend_url(self, project: int, url: str) -> None:
        """Ask whether Label Studio would call this address; a forbidden one raises, and nothing is stored.

        The time limit sent is not a number: Label Studio refuses that, but only after it has checked the address.
        """
        self._probe("/api/ml", {"project": project, "url": url, "timeout": "probe"})

    def probe_webhook_url(self, project: int, url: str) -> None:
        """Ask whether Label Studio would send events to this address; a forbidden one raises, nothing is stored."""
        self._probe("/api/webhooks/", {"project": project, "url": url, "send_payload": "probe"})

    def _probe(self, path: str, fields: Json) -> None:
        with contextlib.suppress(LabelStudioRejectedError):
            self._call("POST", path, json=fields)

    # -- predictions

    def predictions(self, project: int) -> list[Json]:
        """All predictions of a project."""
        return self._objects("GET", "/api/predictions/", params={"project": project}, timeout=SLOW)

    def import_predictions(self, project: int, predictions: Sequence[Json]) -> None:
        """Add predictions in bulk; Label Studio drops those it dislikes silently, so the count is checked."""
        path = f"/api/projects/{project}/import/predictions"
        for start in range(0, len(predictions), PREDICTION_BATCH):
            batch = list(predictions[start : start + PREDICTION_BATCH])
            created = self._object("POST", path, json=batch, timeout=SLOW).get("created")
            if created != len(batch):
                raise LabelStudioAnswerError(f"POST {path} created {created!r} of {len(batch)} predictions")

    def update_prediction(self, prediction: int, fields: Json) -> Json:
        """Change a prediction."""
        return self._object("PATCH", f"/api/predictions/{prediction}/", json=fields)

    def delete_prediction(self, prediction: int) -> None:
        """Remove a prediction; one that is already gone is fine."""
        self._delete(f"/api/predictions/{prediction}/")

    def delete_model_version(self, project: int, model_version: str) -> None:
        """Remove all predictions of one model version."""
        path = f"/api/projects/{project}/model-versions/"
        self._call("DELETE", path, json={"model_version": model_version}, timeout=SLOW)

    # -- Data Manager tabs

    def views(self, project: int) -> list[Json]:
        """The tabs of a project's Data Manager."""
        return self._objects("GET", "/api/dm/views/", params={"project": project})

    def create_view(self, project: int, data: Json) -> Json:
        """Add a tab."""
        return self._object("POST", "/api/dm/views/", params={"project": project}, json=_view(project, data))

    def update_view(self, project: int, view: int, data: Json) -> Json:
        """Replace a tab's definition."""
        path = f"/api/dm/views/{view}/"
        return self._object("PATCH", path, params={"project": project}, json=_view(project, data))

    def delete_view(self, project: int, view: int) -> None:
        """Remove a tab; one that is already gone is fine."""
        self._delete(f"/api/dm/views/{view}/", params={"project": project})

    # -- shapes

    def _delete(self, path: str, *, params: Mapping[str, str | int] | None = None) -> None:
        try:
            self._call("DELETE", path, params=params)
        except LabelStudioMissingError:
            return

    def _object(self, method: str, path: str, **options: Any) -> Json:
        answer = self._call(method, path, **options)
        if not isinstance(answer, dict):
            raise LabelStudioAnswerError(f"{method} {path} answered {type(answer).__name__}, expected an object")
        return answer

    def _objects(self, method: str, path: str, **options: Any) -> list[Json]:
        return _objects_in(self._call(method, path, **options), path)


def _objects_in(answer: Any, path: str) -> list[Json]:
    """Check that an answer is a list of objects."""
    if not isinstance(answer, list) or not all(isinstance(entry, dict) for entry in answer):
        raise LabelStudioAnswerError(f"{path} answered {type(answer).__name__}, expected a list of objects")
    return answer


def task_filter(column: str, operator: str, kind: str, value: str | int) -> Json:
    """A condition on tasks as the Data Manager takes it, in tabs and in queries."""
    return {"filter": f"filter:tasks:{column}", "operator": operator, "type": kind, "value": value}


def _view(project: int, data: Json) -> Json:
    return {"project": project, "data": data}


def user_names(client: LabelStudioClient) -> dict[str, tuple[str | None, str | None]]:
    """Name and address of every user, by id."""
    people = {}
    for user in client.users():
        user = clean(user)
        full_name = " ".join(str(user.get(part) or "").strip() for part in ("first_name", "last_name")).strip()
        email = str(user.get("email") or "") or None
        people[str(user.get("id"))] = (full_name[:200] or email, email)
    return people


def service_url(settings: Settings) -> str:
    """The address at which Label Studio reaches this service."""
    return settings.backend_url or settings.public_url or f"http://{settings.host}:{settings.port}"


def reached_at(client: LabelStudioClient, ls_project_id: int, settings: Settings) -> str | None:
    """The address under which a project knows this service; None where that cannot be told.

    Without a configured address it is the ML backend somebody added by hand, if there is only one: events sent to an
    address that does not answer would cost every annotator a second per answer.
    """
    if settings.backend_url or settings.public_url:
        return service_url(settings)
    known = {str(entry.get("url")).rstrip("/") for entry in client.ml_backends(ls_project_id)}
    if service_url(settings) in known:
        return service_url(settings)
    return known.pop() if len(known) == 1 else None


def ensure_webhook(
    client: LabelStudioClient, ls_project_id: int, settings: Settings, *, address: str | None = None
) -> bool:
    """Leave exactly one active webhook of ours, with the secret if one is set; whether anything was changed."""
    address = address or reached_at(client, ls_project_id, settings)
    if address is None:
        return False
    url = address + "/webhook"
    headers = {SECRET_HEADER: settings.webhook_secret} if settings.webhook_secret else {}
    ours = [hook for hook in client.webhooks(ls_project_id) if str(hook.get("url")).rstrip("/") == url]
    if not ours:
        client.create_webhook(ls_project_id, url, headers)
        return True
    kept, *duplicates = sorted(ours, key=lambda hook: int(hook["id"]))
    for hook in duplicates:
        client.delete_webhook(int(hook["id"]))
    has_headers = all((kept.get("headers") or {}).get(name) == value for name, value in headers.items())
    if has_headers and kept.get("is_active") is not False and kept.get("send_for_all_actions") is not False:
        return bool(duplicates)
    fields = {"url": url, "is_active": True, "send_for_all_actions": True, "send_payload": True}
    client.update_webhook(int(kept["id"]), {**fields, "headers": {**(kept.get("headers") or {}), **headers}})
    return True
