"""Logging in and out."""

from flask import make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from evenhand.errors import ForbiddenError, TooManyAttemptsError, UnauthorizedError
from evenhand.web.auth import current_user, is_open, log_in, log_out
from evenhand.web.dashboard.blueprint import bp, form_text
from evenhand.web.rights import access


@bp.route("/login", methods=["GET", "POST"])
@access("public")
def login() -> Response:
    """The login page; who is logged in already, or needs no login, is sent on."""
    target = _safe_target(request.values.get("next", ""))
    if request.method == "GET":
        if current_user() is not None:
            return redirect(target)
        if is_open():
            return redirect(url_for("dashboard.projects"))  # which says where the link is
        return make_response(render_template("login.html", target=target, name="", message=""))
    name = form_text("name")[:200]
    try:
        log_in(name, request.form.get("password", "")[:1000])
    except (UnauthorizedError, ForbiddenError, TooManyAttemptsError) as error:
        page = render_template("login.html", target=target, name=name, message=str(error))
        return make_response(page, error.status)
    return redirect(target)


@bp.post("/logout")
@access("account")
def logout() -> Response:
    """End the session."""
    log_out()
    return redirect(url_for("dashboard.login"))


def _safe_target(target: str) -> str:
    """Where to go after the login: a page of ours, never another site."""
    is_ours = target.startswith("/ui/") and "\\" not in target and target.isprintable()
    return target if is_ours else url_for("dashboard.projects")
