"""Lets one Label Studio project go: webhook, backend and what we showed there are removed, data kept or erased here."""

from contextlib import ExitStack
from dataclasses import dataclass
from secrets import token_hex

from evenhand.domain import Kind, Project
from evenhand.label_studio.client import LabelStudioClient, service_url
from evenhand.label_studio.transport import LabelStudioMissingError
from evenhand.publish.predictions import PREFIX as OUR_VERSIONS
from evenhand.publish.tabs import is_ours, write_columns
from evenhand.settings import Settings
from evenhand.store import Store

ALERTS: tuple[Kind, ...] = ("alerts",)


@dataclass
class Disconnection:
    """What was removed from Label Studio, and how many rows were erased here."""

    webhooks: int = 0
    backends: int = 0
    tabs: int = 0
    predictions: int = 0
    alerts_projects: int = 0
    erased: int = 0


def disconnect_project(
    store: Store,
    client: LabelStudioClient | None,
    settings: Settings,
    project: Project,
    *,
    with_alerts: bool,
    erase: bool,
) -> Disconnection:
    """Remove what we put into Label Studio and let the project go; without a client only here."""
    done = Disconnection()
    owner = f"disconnect:{token_hex(4)}"
    with ExitStack() as held:
        # A worker that publishes meanwhile would put back what is removed here, and one that reads cards would fail.
        held.enter_context(store.leases.without_chores(project.id, owner))
        alerts = [entry for entry in store.projects.all(kinds=ALERTS) if entry.alerts_for == project.id]
        for entry in alerts:
            held.enter_context(store.leases.without_chores(entry.id, owner))
        if client is not None:
            _leave(client, settings, project, done)
            for entry in alerts if with_alerts else ():
                client.delete_project(entry.ls_project_id)
                done.alerts_projects += 1
            for entry in () if with_alerts else alerts:
                done.webhooks += remove_webhooks(client, settings, entry.ls_project_id)
        for entry in (*alerts, project):
            store.problems.resolve_all(entry.id)
            store.projects.mark_deleted(entry.id)
    if erase:
        done.erased = store.removals.erase(project.id)
    return done


def _leave(client: LabelStudioClient, settings: Settings, project: Project, done: Disconnection) -> None:
    """Webhook first, so that nothing we do after it is told to us; a project deleted there has nothing left."""
    number, url = project.ls_project_id, service_url(settings)
    try:
        client.project(number)
    except LabelStudioMissingError:
        return
    done.webhooks += remove_webhooks(client, settings, number)
    for backend in client.ml_backends(number):
        if str(backend.get("url")).rstrip("/") == url:
            client.delete_ml_backend(int(backend["id"]))
            done.backends += 1
    for view in client.views(number):
        if is_ours(str((view.get("data") or {}).get("title") or "")):
            client.delete_view(number, int(view["id"]))
            done.tabs += 1
    write_columns(client, number, {})
    versions = {str(entry.get("model_version") or "") for entry in client.predictions(number)}
    for version in sorted(version for version in versions if version.startswith(OUR_VERSIONS)):
        client.delete_model_version(number, version)
        done.predictions += 1


def remove_webhooks(client: LabelStudioClient, settings: Settings, ls_project_id: int) -> int:
    """Take away every webhook of a project that calls us; how many there were."""
    address = service_url(settings) + "/webhook"
    ours = [hook for hook in client.webhooks(ls_project_id) if str(hook.get("url")).rstrip("/") == address]
    for hook in ours:
        client.delete_webhook(int(hook["id"]))
    return len(ours)
