"""Connects one Label Studio project: checks it, registers backend and webhook there, and the project here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.administer.disconnect import remove_webhooks
from evenhand.domain import Project, ProjectRef
from evenhand.errors import UnusableValueError
from evenhand.label_studio.client import LabelStudioClient, ensure_webhook, project_epoch, service_url
from evenhand.label_studio.payloads import clean
from evenhand.label_studio.transport import LabelStudioError, LabelStudioForbiddenError, LabelStudioRejectedError
from evenhand.project_config import ProjectConfig, parse_config
from evenhand.projects.reading import anew, check_project, resolve
from evenhand.publish.alerts import LABEL_CONFIG
from evenhand.settings import Settings, is_loopback
from evenhand.store import Store
from evenhand.store.projects import READING_KEYS

BACKEND_TITLE = "Evenhand"
WEBHOOK_FIX = (
    "set SSRF_PROTECTION_ENABLED=false in Label Studio's environment and restart it (ML_BLOCK_LOCAL_IP=false is needed "
    "as well; USE_DEFAULT_BANNED_SUBNETS=false alone does both), or give this service a public address"
)
BACKEND_FIX = (
    "set ML_BLOCK_LOCAL_IP=false in Label Studio's environment and restart it (SSRF_PROTECTION_ENABLED=false is needed "
    "as well; USE_DEFAULT_BANNED_SUBNETS=false alone does both), or give this service a public address"
)
WHO_SEES_IT = (
    "Label Studio Community has no roles: every annotator can open the alerts project and the tabs 'bias: NAME', and "
    "see who is on them. So pseudonyms hide names and ids on the cards unless you decline them (--names); tabs are "
    "left out then, since they name annotators. Columns of a tab are kept in the data of the tasks that it lists."
)


class ConnectError(LabelStudioError):
    """Label Studio refuses to talk to this service."""

    code = "connect_refused"


@dataclass(frozen=True)
class Connection:
    """What `connect` did."""

    project: Project
    config: ProjectConfig
    backend_was_new: bool
    webhook_changed: bool


def connect_project(
    store: Store,
    client: LabelStudioClient,
    settings: Settings,
    ls_project_id: int,
    values: Mapping[str, Any],
    *,
    sides: str | None = None,
    by: str = "evenhand connect",
) -> Connection:
    """
    Register the project on both sides; safe to repeat, with the same or with other settings.

    What the owner says of the sides is set with everything else, before answers are read.
    """
    described = client.project(ls_project_id)
    label_config = str(clean(described.get("label_config") or ""))
    if label_config.strip() == LABEL_CONFIG.strip() or "[evenhand " in str(described.get("description") or ""):
        raise UnusableValueError(
            f"project {ls_project_id} holds Evenhand's own alert cards; connect the project it was made for"
        )
    ref = ProjectRef(ls_project_id, project_epoch(described))
    known = store.projects.find(client.url, ref)
    stated = {} if sides is None else {"sides": sides}
    config = parse_config({**values, **stated}, base=known.config if known else None)
    is_read = known is not None and bool((known.agreed or {}).get("label_config"))
    is_agreed = is_read and not any(key in values for key in READING_KEYS)
    if not is_agreed:
        reading = resolve(config, label_config, known.task_fields if known else ())
        if config.control is None and len(reading.controls) == 1:
            config = parse_config({"control": reading.control}, base=config.to_json())
    webhook_changed = not config.pull_only and _install_webhook(client, settings, ls_project_id)
    try:
        backend_was_new = not config.pull_only and _install_backend(client, settings, ls_project_id)
    except ConnectError:
        if known is None:
            remove_webhooks(client, settings, ls_project_id)  # an older Label Studio forbids backends alone
        raise
    title = str(clean(described.get("title") or ""))
    project = store.projects.register(client.url, ref, title=title, label_config=label_config, config=config, by=by)
    store.projects.describe(project.id, title=title, label_config=label_config)
    project = store.projects.set_config(project.id, config, by=by)
    if not is_agreed:
        project = store.projects.agree(project.id, anew(project))
    project = check_project(store, project)
    return Connection(project, config, backend_was_new, webhook_changed)


def _install_webhook(client: LabelStudioClient, settings: Settings, ls_project_id: int) -> bool:
    """Before the backend: Label Studio then adds no second webhook without the secret."""
    try:
        return ensure_webhook(client, ls_project_id, settings, address=service_url(settings))
    except LabelStudioForbiddenError as error:
        raise ConnectError(
            f"Label Studio refuses to send events to {service_url(settings)}: {error}", remedy=WEBHOOK_FIX
        ) from error


def _install_backend(client: LabelStudioClient, settings: Settings, ls_project_id: int) -> bool:
    """Add this service as ML backend, or bring the one that is there up to date; whether it is new.

    It gets no extra_params: everybody in Label Studio could edit them, and settings stand here.
    """
    url = service_url(settings)
    fields: dict[str, Any] = {"project": ls_project_id, "url": url, "title": BACKEND_TITLE}
    fields["extra_params"] = {}
    if settings.basic_auth_user:
        fields["auth_method"] = "BASIC_AUTH"
        fields["basic_auth_user"], fields["basic_auth_pass"] = settings.basic_auth_user, settings.basic_auth_pass
    ours = [entry for entry in client.ml_backends(ls_project_id) if str(entry.get("url")).rstrip("/") == url]
    try:
        if ours:
            client.update_ml_backend(int(ours[0]["id"]), fields)
        else:
            client.create_ml_backend(fields)
    except LabelStudioForbiddenError as error:
        raise ConnectError(f"Label Studio refuses to call {url}: {error}", remedy=BACKEND_FIX) from error
    except LabelStudioRejectedError as error:
        raise ConnectError(
            f"Label Studio could not add {url} as ML backend: {error}", remedy=_reach_fix(url)
        ) from error
    return not ours


def _reach_fix(url: str) -> str:
    """What to do when Label Studio does not get through to us."""
    host = url.split("://", 1)[-1].split("/", 1)[0].rsplit(":", 1)[0]
    fix = (
        "start `evenhand serve` first, and check BASIC_AUTH_USER and BASIC_AUTH_PASS; where Label Studio cannot call "
        "this service at all, connect with --pull-only true"
    )
    if is_loopback(host):
        fix += f"; {url} means Label Studio's own machine or container: if it is another one, set EVENHAND_PUBLIC_URL"
    return fix
