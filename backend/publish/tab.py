"""A tab in the Data Manager that shows the tasks of the flagged annotators."""

from typing import Any

from backend.label_studio_http import LabelStudioMissingError
from backend.publish.context import STATE, Context, content_hash
from backend.publish.views import view_data

CHANNEL = "tab"
TITLE = "Position bias: to review"
DEFAULT_TITLE = "Default"
LIMIT = 50  # each annotator is one more condition in Label Studio's query

Json = dict[str, Any]


def publish_tab(context: Context) -> None:
    """Show the flagged annotators whose flags nobody dismissed; without any, there is no tab.

    The tab's filter names annotators, so there is none while pseudonyms are used.
    """
    publish = context.config.publish
    people = _to_review(context) if publish.tab and not publish.pseudonyms else []
    if not people and context.recall(CHANNEL).state == "new":
        return
    fingerprint = content_hash(people)
    if context.is_done(CHANNEL, fingerprint):
        return
    with context.attempt(CHANNEL, fingerprint):
        _write(context, people)
    if not people:
        context.forget(CHANNEL, STATE)


def _to_review(context: Context) -> list[int]:
    decisions = context.store.current_decisions(context.project.id)
    flagged = [str(flag["annotator_id"]) for flag in context.store.list_flags(context.project.id)]
    kept = [key for key in flagged if key not in decisions or decisions[key].decision != "dismiss"]
    return sorted(int(key) for key in kept if key.isdecimal())[:LIMIT]


def _write(context: Context, people: list[int]) -> None:
    """Create, update or remove the tab; one with our title that a killed attempt left behind is taken over."""
    client, project = context.client, context.project.ls_project_id
    views = client.views(project)
    ours = [view for view in views if (view.get("data") or {}).get("title") == TITLE]
    for extra in ours if not people else ours[1:]:
        client.delete_view(project, int(extra["id"]))
        context.count("tabs_removed")
    if not people:
        return
    if ours:
        try:
            view = client.update_view(project, int(ours[0]["id"]), _definition(people))
            context.count("tabs_updated")
            context.remember(CHANNEL, remote_id=str(view["id"]))
            return
        except LabelStudioMissingError:
            pass  # removed by somebody a moment ago
    if not views:
        # Label Studio makes its own first tab only where there is none yet; without it people would see ours alone.
        client.create_view(project, view_data(DEFAULT_TITLE))
    view = client.create_view(project, _definition(people))
    context.count("tabs_created")
    context.remember(CHANNEL, remote_id=str(view["id"]))


def _definition(people: list[int]) -> Json:
    # One condition per annotator: a list as value is saved, but then listing the tabs fails.
    items = [
        {"filter": "filter:tasks:annotators", "operator": "contains", "type": "List", "value": person}
        for person in people
    ]
    return view_data(TITLE, filters=items, newest_first=True)
