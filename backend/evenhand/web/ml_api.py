"""The ML-backend protocol of Label Studio: thin routes over `ingest` and stored runs."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, jsonify, redirect, request
from werkzeug.wrappers import Response as WerkzeugResponse

from evenhand.errors import PayloadError, RequestError
from evenhand.ingest.events import OTHER, handle_setup, take_hint
from evenhand.json_values import few
from evenhand.label_studio import payloads
from evenhand.publish import predictions as predict
from evenhand.settings import PROBE_HEADER
from evenhand.web.auth import access, current_user
from evenhand.web.context import WORDS, get_services, get_settings, get_store, json_body, wants_html

bp = Blueprint("ml_api", __name__)


@bp.get("/health")
@access("public")
def health() -> Response:
    """Alive; says nothing else to strangers."""
    return jsonify({"status": "UP"})


@bp.get("/ready")
@access("public")
def ready() -> tuple[Response, int]:
    """Whether events can be kept and acted on, for whoever sends traffic here; asked at most once a second."""
    state = get_services().readiness.state()
    if state.code is None:
        return jsonify({"status": state.status, "checks": state.checks}), 200
    error = {"code": state.code, "message": WORDS[state.code]}
    return jsonify({"status": state.status, "ok": False, "error": error}), 503


@bp.get("/")
@access("public")
def root() -> WerkzeugResponse:
    """Health for programs, the dashboard for people."""
    return redirect("/ui/") if wants_html() else health()


@bp.post("/setup")
@access("protocol")
def setup() -> Response:
    """Register a project; the answer's version changes when results change."""
    body = payloads.read_setup(json_body())
    return jsonify({"model_version": handle_setup(get_store(), get_settings(), body)})


@bp.post("/predict")
@access("protocol")
def predictions() -> Response:
    """The consensus of the latest stored run, one entry per task."""
    body = json_body()
    tasks = body.get("tasks") if isinstance(body, dict) else None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise PayloadError("the /predict body has no list 'tasks' of task objects")
    ref = payloads.project_ref(body["project"]) if body.get("project") is not None else None
    results = predict.predict_tasks(get_store(), get_settings(), ref, few(tasks, "tasks"))
    return Response(_streamed(results), content_type="application/json")


def _streamed(results: Iterable[dict[str, Any] | list[Any]]) -> Iterator[str]:
    """The answer piece by piece, so that it never stands in memory whole."""
    lead = '{"results":['
    for part in results:
        yield f"{lead}{json.dumps(part)}"
        lead = ","
    yield "]}" if lead == "," else f"{lead}]}}"


@bp.post("/webhook")
@access("webhook")
def webhook() -> Response:
    """Validate, upsert, answer; everything else happens in the worker."""
    try:
        event = payloads.read_event(json_body())
    except RequestError:
        get_store().events.count(OTHER, "rejected")
        raise
    if PROBE_HEADER in request.headers:
        return jsonify({"ok": True, "probe": event.action})
    services, user = get_services(), current_user()
    if user is not None and user.via == "hint":
        take_hint(services.store, services.settings, event)
        return jsonify({"ok": True, "hint": event.action[:60]})
    if user is not None and user.via == "open":
        event = replace(event, is_verified=False)
    taken = services.events.submit(event)
    services.refusals.store(services.store)
    return jsonify(taken)


@bp.route("/versions", methods=["GET", "POST"])
@access("protocol")
def versions() -> Response:
    """Versions of the latest runs."""
    project = request.args.get("project")
    store = get_store()
    if project is None:
        return jsonify({"versions": store.runs.model_versions()})
    known = store.projects.find(get_settings().label_studio_url, payloads.project_ref(project))
    return jsonify({"versions": store.runs.model_versions(known.id) if known else []})
