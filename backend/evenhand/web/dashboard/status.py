"""Pages about the service itself: its state, and one's own account."""

import requests
from flask import flash, make_response, redirect, render_template, request, url_for
from requests import Session
from werkzeug.wrappers import Response

from evenhand.administer import doctor
from evenhand.errors import ForbiddenError, RequestError, TooManyAttemptsError, UnauthorizedError
from evenhand.ingest.reviews import link_by_token
from evenhand.json_values import MAX_ID
from evenhand.label_studio.client import LabelStudioClient
from evenhand.label_studio.transport import Transport
from evenhand.projects.overview import overview
from evenhand.settings import Settings
from evenhand.web.auth import access, current_user, is_open, log_in, log_out
from evenhand.web.context import get_settings, get_store
from evenhand.web.dashboard.blueprint import bp, form_text

# Seconds to connect, and to wait for an answer.
PATIENCE = (3.0, 10.0)
REJECTED = ("rejected", "unauthorized")


@bp.get("/status")
def status() -> str:
    """The status page; the checks that call Label Studio are loaded behind it, or with ?checks=1."""
    store, settings = get_store(), get_settings()
    state = overview(store) | {"problems": store.problems.find()}
    rejected = [row for row in state["events"] if row["outcome"] in REJECTED]
    checks = _examine() if request.args.get("checks") else None
    titles = {project["id"]: project["title"] for project in state["projects"]}
    return render_template(
        "status.html", state=state, rejected=rejected, checks=checks, titles=titles, settings=settings
    )


@bp.get("/status/checks")
def checks() -> str:
    """The checks alone, for the page to show when they are done."""
    return render_template("_checks.html", checks=_examine())


def _examine() -> list[doctor.Check]:
    """Everything `evenhand doctor` looks at."""
    settings = get_settings()
    with requests.Session() as session:
        return doctor.examine(settings, get_store(), _impatient_client(settings, session))


def _impatient_client(settings: Settings, session: requests.Session) -> LabelStudioClient | None:
    """A client that asks once and gives up soon: somebody waits for the page."""
    if not settings.label_studio_url or not settings.label_studio_api_key:
        return None
    transport = Transport(
        settings.label_studio_url, settings.label_studio_api_key, session=session, attempts=1, timeout=PATIENCE
    )
    return LabelStudioClient(transport)


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
