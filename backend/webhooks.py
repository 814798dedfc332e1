"""Installs the secret that annotation events carry into a project's webhook in Label Studio."""

from backend.label_studio import LabelStudioClient
from backend.settings import Settings

SECRET_HEADER = "X-Evenhand-Secret"  # noqa: S105 - the header's name


def service_url(settings: Settings) -> str:
    """The address at which Label Studio reaches this service."""
    return settings.backend_url or settings.public_url or f"http://{settings.host}:{settings.port}"


def ensure_webhook(client: LabelStudioClient, ls_project_id: int, settings: Settings) -> bool:
    """Leave exactly one active webhook of ours, with the secret if one is set; whether anything was changed."""
    url = service_url(settings) + "/webhook"
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
