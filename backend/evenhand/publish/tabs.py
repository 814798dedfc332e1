"""Tabs in the Data Manager: the heaviest tasks of each flagged annotator, or one tab for all where they are many."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from evenhand.domain import Project, Run, shown_name
from evenhand.label_studio.client import LabelStudioClient, task_filter
from evenhand.label_studio.transport import LabelStudioMissingError
from evenhand.publish.context import STATE, Context, content_hash
from evenhand.settings import Settings
from evenhand.store import Store
from fdr_core.report.heaviest import Weighed, heaviest_answers

# What Label Studio hides by default; a tab that does not say what is hidden shows every column.
HIDDEN_BY_DEFAULT = (
    "inner_id",
    "annotations_results",
    "annotations_ids",
    "predictions_score",
    "predictions_model_versions",
    "predictions_results",
    "file_upload",
    "storage_filename",
    "created_at",
    "updated_at",
    "updated_by",
    "avg_lead_time",
    "draft_exists",
)
HIDDEN_WHILE_LABELING = ("id", "completed_at", "cancelled_annotations", "total_predictions", "annotators")


NEWEST_FIRST = "-updated_at"


def view_data(
    title: str,
    *,
    filters: Sequence[dict[str, Any]] = (),
    hidden: Iterable[str] = (),
    shown: Collection[str] = (),
    order: str | None = None,
) -> dict[str, Any]:
    """The definition of a tab; tasks that meet any of the filters are shown, by id or by the column `order`.

    `hidden` and `shown` are columns that differ from Label Studio's own choice.
    """
    explore = [f"tasks:{name}" for name in (*HIDDEN_BY_DEFAULT, *hidden) if name not in shown]
    labeling = [*explore, *(f"tasks:{name}" for name in HIDDEN_WHILE_LABELING)]
    return {
        "title": title,
        "type": "list",
        "target": "tasks",
        "filters": {"conjunction": "or", "items": list(filters)},
        "ordering": [] if order is None else ["-" * order.startswith("-") + f"tasks:{order.removeprefix('-')}"],
        "hiddenColumns": {"explore": explore, "labeling": labeling},
    }


MOST_ANSWERS = 20_000


def heaviest_tasks(store: Store, project: Project, run: Run | None, annotator: str, *, most: int) -> list[int]:
    """Ids of the tasks whose answers by this annotator weigh most, heaviest first."""
    return [one.row["task_id"] for one in heaviest(store, project, run, annotator, most=most)]


def heaviest(store: Store, project: Project, run: Run | None, annotator: str, *, most: int) -> list[Weighed]:
    """The answers of this annotator that weigh most, of each task one, heaviest first."""
    answers = store.comparisons.of_annotator(project.id, annotator, limit=MOST_ANSWERS)
    row = store.findings.get(run.id, annotator) if run else None
    lean = (row or {}).get("bias") or sum(
        answer["outcome"] or 0.0 for answer in answers if answer["status"] == "answer"
    )
    items = {answer[side] for answer in answers for side in ("left_item", "right_item") if answer[side]}
    scores = store.rankings.scores(run.id, items) if run else {}
    consensus = run.consensus if run else "logistic"
    weighed = heaviest_answers(answers, scores, lean, consensus=consensus, most=len(answers))
    by_task: dict[int, Weighed] = {}
    for one in weighed:
        if one.row["task_id"] is not None:
            by_task.setdefault(one.row["task_id"], one)
    return list(by_task.values())[:most]


def task_link(project: Project, settings: Settings | None, task: int) -> str:
    """A task's address in Label Studio, as people reach it."""
    base = (settings.label_studio_public_url if settings else "") or project.ls_url
    return f"{base}/projects/{project.ls_project_id}/data?task={task}"


CHANNEL = "tab"
# Label Studio cuts titles after some twelve characters: what it is and whose comes first, what marks it ours last.
PREFIX, SUFFIX = "bias: ", " · Evenhand"
#: What a tab shows beside the items: whose answers, what they are, what the consensus says and how clearly.
SHOWN = ("annotations_results", "predictions_results", "predictions_score")
DEFAULT_TITLE = "Default"
#: A tab for each of so many annotators at most; beyond, one tab serves all.
MOST_TABS = 20
LIMIT = 50  # each annotator is one more condition in Label Studio's query
NAME_LENGTH = 60

Json = dict[str, Any]


def title_of(name: str) -> str:
    """The title of the tab about somebody."""
    return f"{PREFIX}{name}{SUFFIX}"


TITLE = title_of("to review")
#: The tab with the tasks to label anew, made when somebody asks for it.
RELABEL = title_of("label anew")
#: Each task is one more condition in Label Studio's query.
MOST_LISTED = 200


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


def relabel_tab(client: LabelStudioClient, project: Project, tasks: Sequence[int]) -> int:
    """Make or renew the tab with the tasks to label anew; how many it shows."""
    listed = [task_filter("id", "equal", "Number", task) for task in tasks[:MOST_LISTED]]
    wanted, number = view_data(RELABEL, filters=listed, shown=SHOWN), project.ls_project_id
    views = client.views(number)
    ours = [view for view in views if (view.get("data") or {}).get("title") == RELABEL]
    if ours:
        client.update_view(number, int(ours[0]["id"]), wanted)
        return len(listed)
    if not views:
        # Label Studio makes its own first tab only where there is none yet; without it people would see ours alone.
        client.create_view(number, view_data(DEFAULT_TITLE))
    client.create_view(number, wanted)
    return len(listed)


def is_ours(title: str) -> bool:
    """Whether a tab of this title is one of ours."""
    return title.startswith(PREFIX) and title.endswith(SUFFIX)


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
        name = shown_name(known.get(key), key)[:NAME_LENGTH]
        while title_of(name) in listed:
            name += f" ({key})"
        listed[title_of(name)] = heaviest_tasks(store, project, context.run, key, most=context.config.review_tasks)
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
            wanted[title] = view_data(title, filters=filters, shown=SHOWN)
    return wanted


def _for_all(people: list[str]) -> dict[str, Json]:
    """One tab for many, with all tasks of theirs, the latest change first."""
    numbers = sorted(int(key) for key in people if key.isdecimal())[:LIMIT]
    # One condition per annotator: a list as value is saved, but then listing the tabs fails.
    filters = [task_filter("annotators", "contains", "List", number) for number in numbers]
    return {TITLE: view_data(TITLE, filters=filters, shown=SHOWN, order=NEWEST_FIRST)} if numbers else {}


def _ours(context: Context) -> tuple[dict[str, list[Json]], bool]:
    """Our tabs by title, one that a killed attempt left behind included, and whether there is any tab at all."""
    views = context.client.views(context.project.ls_project_id)
    ours: dict[str, list[Json]] = {}
    for view in views:
        title = str((view.get("data") or {}).get("title") or "")
        if is_ours(title) and title != RELABEL:
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
