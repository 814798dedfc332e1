"""Tabs in the Data Manager: the heaviest tasks of each flagged annotator, or one tab for all where they are many."""

from typing import Any

from evenhand.label_studio.client import task_filter
from evenhand.label_studio.transport import LabelStudioMissingError
from evenhand.publish.context import STATE, Context, content_hash
from evenhand.publish.review_tasks import heaviest_tasks
from evenhand.publish.views import NEWEST_FIRST, view_data

CHANNEL = "tab"
# Label Studio cuts titles after some fifteen characters, so what tells tabs apart stands first.
SUFFIX = ": position bias"
FORMER_PREFIX = "Position bias: "
TITLE = "To review" + SUFFIX
DEFAULT_TITLE = "Default"
#: A tab for each of so many annotators at most; beyond, one tab serves all.
MOST_TABS = 20
LIMIT = 50  # each annotator is one more condition in Label Studio's query
NAME_LENGTH = 60

Json = dict[str, Any]


def publish_tab(context: Context) -> None:
    """Show the flagged annotators whose flags nobody dismissed; without any, there is no tab.

    The tabs name annotators, so there is none while pseudonyms are used.
    """
    publish = context.config.publish
    people = _to_review(context) if publish.tab and not publish.pseudonyms else []
    if not people and context.recall(CHANNEL).state == "new":
        return
    listed = _listed(context, people) if len(people) <= MOST_TABS else {}
    with context.failures_of(CHANNEL):
        ours, has_tabs = _ours(context)
    wanted = _wanted(people, listed)
    fingerprint = content_hash(wanted)
    if not (context.is_done(CHANNEL, fingerprint) and wanted.keys() <= ours.keys()):
        with context.attempt(CHANNEL, fingerprint):
            _write(context, wanted, ours, has_tabs=has_tabs)
    if not wanted:
        context.forget(CHANNEL, STATE)


def is_ours(title: str) -> bool:
    """Whether a tab of this title is one of ours, or of an earlier version."""
    return title.endswith(SUFFIX) or title.startswith(FORMER_PREFIX)


def _to_review(context: Context) -> list[str]:
    decisions = context.store.decisions.current(context.project.id)
    flagged = [str(flag["annotator_id"]) for flag in context.store.flags.all(context.project.id)]
    return [key for key in flagged if key not in decisions or decisions[key].decision != "dismiss"]


def _listed(context: Context, people: list[str]) -> dict[str, list[int]]:
    """The heaviest tasks of each annotator, heaviest first, by the title of the tab."""
    store, project = context.store, context.project
    known = store.annotators.get(project.id, people)
    listed: dict[str, list[int]] = {}
    for key in people:
        person = known.get(key)
        name = ((person.name or person.email if person else None) or f"annotator {key}")[:NAME_LENGTH]
        while name + SUFFIX in listed:
            name += f" ({key})"
        listed[name + SUFFIX] = heaviest_tasks(store, project, context.run, key, most=context.config.review_tasks)
    return listed


def _wanted(people: list[str], listed: dict[str, list[int]]) -> dict[str, Json]:
    """Definitions of the tabs by title."""
    if not listed:
        return _for_all(people)
    wanted: dict[str, Json] = {}
    for key, (title, tasks) in zip(people, listed.items(), strict=True):
        filters = [task_filter("id", "equal", "Number", task) for task in tasks]
        if not filters and key.isdecimal():
            filters = [task_filter("annotators", "contains", "List", int(key))]
        if filters:
            wanted[title] = view_data(title, filters=filters)
    return wanted


def _for_all(people: list[str]) -> dict[str, Json]:
    """One tab for many, with all tasks of theirs, the latest change first."""
    numbers = sorted(int(key) for key in people if key.isdecimal())[:LIMIT]
    # One condition per annotator: a list as value is saved, but then listing the tabs fails.
    filters = [task_filter("annotators", "contains", "List", number) for number in numbers]
    return {TITLE: view_data(TITLE, filters=filters, order=NEWEST_FIRST)} if numbers else {}


def _ours(context: Context) -> tuple[dict[str, list[Json]], bool]:
    """Our tabs by title, one that a killed attempt left behind included, and whether there is any tab at all."""
    views = context.client.views(context.project.ls_project_id)
    ours: dict[str, list[Json]] = {}
    for view in views:
        title = str((view.get("data") or {}).get("title") or "")
        if is_ours(title):
            ours.setdefault(title, []).append(view)
    return ours, bool(views)


def _write(context: Context, wanted: dict[str, Json], ours: dict[str, list[Json]], *, has_tabs: bool) -> None:
    """Create, update or remove tabs until those wanted are there, once each."""
    client, project = context.client, context.project.ls_project_id
    for title, views in ours.items():
        for extra in views[1:] if title in wanted else views:
            client.delete_view(project, int(extra["id"]))
            context.count("tabs_removed")
    if wanted and not has_tabs:
        # Label Studio makes its own first tab only where there is none yet; without it people would see ours alone.
        client.create_view(project, view_data(DEFAULT_TITLE))
    for title, definition in wanted.items():
        if title in ours and _updated(context, ours[title][0], definition):
            continue
        client.create_view(project, definition)
        context.count("tabs_created")


def _updated(context: Context, view: Json, definition: Json) -> bool:
    """Bring a tab up to date; False if somebody removed it a moment ago."""
    try:
        context.client.update_view(context.project.ls_project_id, int(view["id"]), definition)
    except LabelStudioMissingError:
        return False
    context.count("tabs_updated")
    return True
