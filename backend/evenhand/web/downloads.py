"""The report's files of a finished run, the same bytes for the dashboard and the API."""

from flask import Blueprint, Flask, Response, request

from evenhand.runs.report import report_of_run
from evenhand.web.context import get_store
from evenhand.web.openapi import ID
from fdr_core.report import FILES, MEDIA_TYPES, pseudonymised, render
from fdr_core.report.page import content_security_policy


def init_app(app: Flask) -> None:
    """Serve the files under the dashboard and under the API."""
    blueprint = Blueprint("downloads", __name__)
    for name in FILES:
        for prefix, endpoint in (("/ui", "report_file"), ("/api/v1", "api_report_file")):
            rule = f"{prefix}/projects/<{ID}:project_id>/runs/<{ID}:run_id>/{name}"
            blueprint.add_url_rule(rule, endpoint=endpoint, view_func=report_file, defaults={"name": name})
    app.register_blueprint(blueprint)


def report_file(project_id: int, run_id: int, name: str) -> Response:
    """One file of a run's report; ?pseudonymise=1 hides who the annotators are."""
    store = get_store()
    report = report_of_run(store, store.runs.get(run_id, project_id=project_id))
    if request.args.get("pseudonymise", "").lower() in ("1", "true", "yes"):
        report = pseudonymised(report)
    response = Response(render(report, name), content_type=MEDIA_TYPES[name])
    if name == "report.html":
        response.headers["Content-Security-Policy"] = f"{content_security_policy()}; frame-ancestors 'none'"
    disposition = "attachment" if request.args.get("download") or name != "report.html" else "inline"
    response.headers["Content-Disposition"] = f'{disposition}; filename="run-{run_id}-{name}"'
    return response
