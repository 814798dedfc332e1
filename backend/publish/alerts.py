"""The alerts project: one card per flagged annotator, and reviewers' answers that come back as decisions."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

from backend.domain import Kind, Project, ProjectRef
from backend.label_studio import project_epoch
from backend.label_studio_http import LabelStudioMissingError
from backend.protocol import ALERT_ANNOTATOR
from backend.pseudonyms import PSEUDONYM_KEY, pseudonym
from backend.publish.cards import LABEL_CONFIG, LIST_VIEW, Card, card_data
from backend.publish.context import Context, content_hash
from backend.reconcile import user_names
from backend.webhooks import ensure_webhook, reached_at

CHANNEL = "alerts"
TITLE_LENGTH = 50
GONE = "no longer on the list"
KINDS: tuple[Kind, ...] = ("alerts",)

Json = dict[str, Any]


def publish_alerts(context: Context) -> None:
    """Keep one card per flagged annotator; cards nobody has answered go when the flag goes."""
    if not context.config.publish.alerts:
        return
    cards = _cards(context)
    known = alerts_project(context)
    if not cards and known is None:
        return
    fingerprint = content_hash(cards)
    if context.is_done(CHANNEL, fingerprint):
        return
    with context.attempt(CHANNEL, fingerprint):
        target = _ensure_project(context, known)
        # An event brings only the reviewer's id; the name has to be here before it comes.
        context.store.name_annotators(target.id, user_names(context.client), insert=True)
        _listen(context, target)
        if not context.client.views(target.ls_project_id):
            context.client.create_view(target.ls_project_id, LIST_VIEW)
        _write(context, target, cards)


def _listen(context: Context, target: Project) -> None:
    """Have decisions sent to where the comparison project's events go."""
    if context.settings is None:
        return
    address = reached_at(context.client, context.project.ls_project_id, context.settings)
    if address is not None:
        ensure_webhook(context.client, target.ls_project_id, context.settings, address=address)


def alerts_project(context: Context) -> Project | None:
    """The alerts project that belongs to this one."""
    found = [p for p in context.store.list_projects(kinds=KINDS) if p.alerts_for == context.project.id]
    return found[-1] if found else None


def _cards(context: Context) -> dict[str, Json]:
    """Task data by the name under which the annotator appears."""
    store, project = context.store, context.project
    people = store.list_annotators(project.id)
    key = store.shared_secret(PSEUDONYM_KEY) if context.config.publish.pseudonyms else None
    cards = {}
    for flag in store.list_flags(project.id):
        annotator = str(flag["annotator_id"])
        person = people.get(annotator)
        shown = annotator if key is None else pseudonym(key, project.id, annotator)
        name = shown if key or person is None else person.name or person.email or f"annotator {annotator}"
        figures = store.run_annotator(flag["run_id"], annotator) or {}
        card = Card(
            project_id=project.id,
            project_title=project.title,
            annotator=shown,
            name=name,
            verdict=str(flag["verdict"] or ""),
            evidence={**figures, **flag["evidence"]},
            q=context.config.q,
            since=float(flag["since"]),
        )
        cards[shown] = card_data(card if key else replace(card, link=_link(context, annotator)))
    return cards


def _link(context: Context, annotator: str) -> str:
    """The annotator's page in the dashboard, at the address people use."""
    url = context.settings.public_url if context.settings else ""
    return f"{url}/ui/projects/{context.project.id}/annotator?id={quote(annotator, safe='')}" if url else ""


def _marker(project: Project) -> str:
    """Marks our project in Label Studio, so that one made just before a kill is found again."""
    return f"[evenhand {project.ls_project_id}.{project.epoch}]"


def _ensure_project(context: Context, known: Project | None) -> Project:
    """The alerts project, found or made; one that was deleted in Label Studio is made anew."""
    client, project = context.client, context.project
    if known is not None:
        try:
            if project_epoch(client.project(known.ls_project_id)) == known.epoch:
                return known
        except LabelStudioMissingError:
            pass
        context.store.mark_deleted(known.id)
    marker = _marker(project)
    described = next((p for p in client.projects() if marker in str(p.get("description") or "")), None)
    if described is None:
        described = client.create_project(
            {
                "title": f"Position bias: {project.title}"[:TITLE_LENGTH].strip(),
                "description": f"Cards made by Evenhand for reviewers; answers are read back as decisions. {marker}",
                "label_config": LABEL_CONFIG,
                "show_skip_button": False,
                "enable_empty_annotation": False,
            }
        )
        context.count("alert_projects_created")
    return context.store.register_project(
        client.url,
        ProjectRef(int(described["id"]), project_epoch(described)),
        title=str(described.get("title") or ""),
        label_config=LABEL_CONFIG,
        kind="alerts",
        alerts_for=project.id,
    )


def _write(context: Context, target: Project, cards: dict[str, Json]) -> None:
    """Compare the cards that are there with those that should be."""
    existing: dict[str, list[Json]] = {}
    for page in context.client.tasks(target.ls_project_id):
        for task in page:
            data = task.get("data") if isinstance(task.get("data"), dict) else {}
            existing.setdefault(str((data or {}).get(ALERT_ANNOTATOR)), []).append(task)
    for name, tasks in existing.items():
        kept, *extra = sorted(tasks, key=lambda task: (not task.get("annotations"), int(task["id"])))
        for task in extra:
            _retire(context, task)
        if name not in cards:
            _retire(context, kept)
        elif kept["data"] != cards[name]:
            context.client.update_task(int(kept["id"]), {"data": cards[name]})
            context.count("cards_updated")
    missing = [{"data": data} for name, data in cards.items() if name not in existing]
    if missing:
        context.client.import_tasks(target.ls_project_id, missing)
        context.count("cards_created", len(missing))


def _retire(context: Context, task: Json) -> None:
    """Remove a card nobody answered; one that was answered stays and says that it is of the past."""
    if not task.get("annotations"):
        context.client.delete_task(int(task["id"]))
        context.count("cards_removed")
    elif task["data"].get("finding") != GONE:
        page = f"<p><b>The latest run no longer lists this annotator.</b></p>{task['data'].get('card', '')}"
        context.client.update_task(int(task["id"]), {"data": {**task["data"], "finding": GONE, "card": page}})
        context.count("cards_retired")
