"""The ML-backend protocol of Label Studio: thin routes over `ingest` and stored runs."""

from flask import Blueprint, Response, jsonify, redirect, request
from werkzeug.wrappers import Response as WerkzeugResponse

from backend import ingest, predict, protocol
from backend.errors import PayloadError, RequestError
from backend.web.auth import access
from backend.web.context import get_services, get_settings, get_store, json_body, wants_html

bp = Blueprint("ml_api", __name__)


@bp.get("/health")
@access("public")
def health() -> Response:
    """Alive; says nothing else to strangers."""
    return jsonify({"status": "UP"})


@bp.get("/")
@access("protocol")
def root() -> WerkzeugResponse:
    """Health for programs, the dashboard for people."""
    return redirect("/ui/") if wants_html() else health()


@bp.post("/setup")
@access("protocol")
def setup() -> Response:
    """Register a project; the answer's version changes when results change."""
    body = protocol.read_setup(json_body())
    return jsonify({"model_version": ingest.handle_setup(get_store(), get_settings(), body)})


@bp.post("/predict")
@access("protocol")
def predictions() -> Response:
    """The consensus of the latest stored run, one entry per task."""
    body = json_body()
    tasks = body.get("tasks") if isinstance(body, dict) else None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise PayloadError("the /predict body has no list 'tasks' of task objects")
    ref = protocol.project_ref(body["project"]) if body.get("project") is not None else None
    results = predict.predict_tasks(get_store(), get_settings(), ref, tasks)
    return jsonify({"results": results})


@bp.post("/webhook")
@access("webhook")
def webhook() -> Response:
    """Validate, upsert, answer; everything else happens in the worker."""
    try:
        event = protocol.read_event(json_body())
    except RequestError:
        get_store().count_event(ingest.OTHER, "rejected")
        raise
    services = get_services()
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
        return jsonify({"versions": store.model_versions()})
    known = store.find_project(get_settings().label_studio_url, protocol.project_ref(project))
    return jsonify({"versions": store.model_versions(known.id) if known else []})
