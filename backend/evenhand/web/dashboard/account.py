"""Logging in and out, and who an account is in Label Studio."""

from flask import flash, make_response, redirect, render_template, request, url_for
from requests import Session
from werkzeug.wrappers import Response

from evenhand.errors import ForbiddenError, RequestError, TooManyAttemptsError, UnauthorizedError
from evenhand.ingest.reviews import link_by_token
from evenhand.json_values import MAX_ID
from evenhand.web.auth import current_user, is_open, log_in, log_out
from evenhand.web.context import get_settings, get_store
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


@bp.get("/account")
@access("account")
def account() -> str:
    """Who the caller is here and in Label Studio; for owners everybody."""
    return _account_page()


@bp.post("/account")
@access("account")
def prove() -> Response:
    """Link the caller's account to the user of Label Studio whose token they hold; the token is not kept."""
    user, token = current_user(), request.form.get("token", "")[:5000]
    if user is None or get_store().users.get(user.name) is None:
        raise ForbiddenError("this is no named account; accounts are added with `evenhand users add`")
    try:
        with Session() as session:
            ls_user = link_by_token(get_store(), get_settings(), user.name, token, session)
    except RequestError as error:
        return make_response(_account_page(str(error)), error.status)
    flash(f"You are user {ls_user} in Label Studio, and do not decide about yourself. The token was not kept.")
    return redirect(url_for("dashboard.account"))


@bp.post("/account/links")
@access("owner")
def link() -> Response:
    """Say who an account is in Label Studio: an id, or nobody."""
    name, who, user = form_text("name"), form_text("user").strip(), current_user()
    if who and not (who.isdecimal() and who.isascii() and 0 < int(who) <= MAX_ID):
        return make_response(_account_page(f"{who[:40]!r} is no user id of Label Studio"), 422)
    who = str(int(who)) if who else ""
    get_store().users.link(name, get_settings().label_studio_url, who, by=user.name if user else "unknown")
    flash(f"{name} is {f'user {who}' if who else 'nobody'} in Label Studio.")
    return redirect(url_for("dashboard.account"))


def _account_page(message: str = "") -> str:
    """The page, with what went wrong."""
    user, store = current_user(), get_store()
    own = store.users.get(user.name) if user else None
    everybody = store.users.all() if user is not None and user.may("owner") else []
    return render_template("account.html", own=own, everybody=everybody, message=message)


def _safe_target(target: str) -> str:
    """Where to go after the login: a page of ours, never another site."""
    is_ours = target.startswith("/ui/") and "\\" not in target and target.isprintable()
    return target if is_ours else url_for("dashboard.projects")
