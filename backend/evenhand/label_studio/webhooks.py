"""Installs the secret that annotation events carry into a project's webhook in Label Studio."""

from evenhand.label_studio.client import LabelStudioClient
from evenhand.settings import SECRET_HEADER, Settings


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
