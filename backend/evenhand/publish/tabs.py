"""Tabs in the Data Manager: the heaviest tasks of each flagged annotator, or one tab for all where they are many."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from evenhand.domain import Project, Run, shown_name
from evenhand.label_studio.client import LabelStudioClient, task_filter
from evenhand.label_studio.payloads import COLUMNS
from evenhand.label_studio.transport import LabelStudioMissingError
from evenhand.projects.reading import setup_of
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
#: What leaves no room for the columns of a tab.
HIDDEN_BESIDE = ("completed_at", "total_annotations", "cancelled_annotations", "total_predictions", "annotators")
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
    return ids_of(heaviest(store, project, run, annotator, most=most))


def ids_of(weighed: Iterable[Weighed]) -> list[int]:
    """The tasks of these answers."""
    return [one.row["task_id"] for one in weighed]


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
#: What a tab shows beside the items where nothing is written into tasks: everybody's answers, and the consensus.
SHOWN, SHOWN_WINNER = ("annotations_results",), ("predictions_results", "predictions_score")
HEAVIEST_FIRST = f"-data.{COLUMNS[-1]}"
DEFAULT_TITLE = "Default"
#: A tab for each of so many annotators at most; beyond, one tab serves all.
MOST_TABS = 20
LIMIT = 50  # each annotator is one more condition in Label Studio's query
NAME_LENGTH = 60

Json = dict[str, Any]


def title_of(name: str) -> str:
    """The title of the tab about somebody."""
    return f"{PREFIX}{name}{SUFFIX}"


def name_in(title: str) -> str:
    """Whom a tab of this title is about."""
    return title.removeprefix(PREFIX).removesuffix(SUFFIX)


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
    columns = _columns(listed) if publish.columns else {}
    with context.failures_of(CHANNEL):
        ours, has_tabs = _ours(context)
    look = _look(context, has_columns=bool(columns))
    wanted = _wanted(people, listed, look)
    fingerprint = content_hash([wanted, columns])
    if not (context.is_done(CHANNEL, fingerprint) and wanted.keys() <= ours.keys()):
        with context.attempt(CHANNEL, fingerprint):
            if columns or context.recall(CHANNEL, "columns").state != "new":
                context.remember(CHANNEL, "columns", state="intended")
                written = write_columns(context.client, context.project.ls_project_id, columns)
                context.count("tasks_with_columns", written)
                if not columns:
                    context.forget(CHANNEL, "columns")
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


def _look(context: Context, *, has_columns: bool) -> Json:
    """Which columns a tab shows, and in which order: everybody's answers, or those written for it, heaviest first."""
    if not has_columns:
        return {"shown": (*SHOWN, *(SHOWN_WINNER if context.config.publish.predictions else ()))}
    seen = set(setup_of(context.project.label_config).fields.values())
    hidden = (*HIDDEN_BESIDE, *(f"data.{name}" for name in context.project.task_fields if name not in seen))
    return {"hidden": hidden, "order": HEAVIEST_FIRST}


def _columns(listed: Mapping[str, Sequence[Weighed]]) -> dict[int, Json]:
    """Of each listed task whose answers weigh, which they are, what the consensus is, and how much they say."""
    columns: dict[int, Json] = {}
    for title, weighed in listed.items():
        for one in weighed:
            side = "left" if one.row["outcome"] > 0 else "right"
            word = one.row["word"]
            answer = f"{name_in(title)}: {side}" + (f" ({word})" if word and word != side else "")
            known = columns.get(one.row["task_id"])
            told = (
                f"{known[COLUMNS[0]]}; {answer}" if known else answer,
                _side_of(one.expected),
                max(known[COLUMNS[2]] if known else "", f"{one.weight:.1f}"),
            )
            columns[one.row["task_id"]] = dict(zip(COLUMNS, told, strict=True))
    return columns


def _side_of(expected: float | None) -> str:
    """What the others make of the items, in words that change only if it does."""
    if expected is None:
        return "not known"
    return "even" if abs(expected) < 0.05 else f"{'left' if expected > 0 else 'right'} {abs(expected):.1f}"


def write_columns(client: LabelStudioClient, ls_project_id: int, columns: Mapping[int, Json]) -> int:
    """Write our fields into these tasks' data and remove them from all others; how many tasks were changed."""
    there = {int(task["id"]): task["data"] for task in client.tasks_with(ls_project_id, COLUMNS[0])}
    written = 0
    for task in sorted(columns.keys() | there.keys()):
        wanted = columns.get(task, {})
        if {key: there.get(task, {}).get(key) for key in COLUMNS if key in there.get(task, {})} == wanted:
            continue
        try:
            # Read a moment before it is written, since that replaces the whole of it.
            data = client.task(task)["data"]
            client.update_task(task, {"data": {**{k: v for k, v in data.items() if k not in COLUMNS}, **wanted}})
        except LabelStudioMissingError:
            continue
        written += 1
    return written


def is_ours(title: str) -> bool:
    """Whether a tab of this title is one of ours."""
    return title.startswith(PREFIX) and title.endswith(SUFFIX)


def _to_review(context: Context) -> list[str]:
    decisions = context.store.decisions.current(context.project.id)
    flagged = [str(flag["annotator_id"]) for flag in context.store.flags.all(context.project.id)]
    return [key for key in flagged if key not in decisions or decisions[key].decision != "dismiss"]


def _listed(context: Context, people: list[str]) -> dict[str, list[Weighed]]:
    """The heaviest answers of each annotator, heaviest first, by the title of the tab."""
    store, project = context.store, context.project
    known = store.annotators.get(project.id, people)
    listed: dict[str, list[Weighed]] = {}
    for key in people:
        name = shown_name(known.get(key), key)[:NAME_LENGTH]
        while title_of(name) in listed:
            name += f" ({key})"
        listed[title_of(name)] = heaviest(store, project, context.run, key, most=context.config.review_tasks)
    return listed


def _wanted(people: list[str], listed: Mapping[str, Sequence[Weighed]], look: Json) -> dict[str, Json]:
    """Definitions of the tabs by title."""
    if not listed:
        return _for_all(people, look)
    wanted: dict[str, Json] = {}
    for key, (title, weighed) in zip(people, listed.items(), strict=True):
        filters = [task_filter("id", "equal", "Number", task) for task in ids_of(weighed)]
        if not filters and key.isdecimal():
            filters = [task_filter("annotators", "contains", "List", int(key))]
        if filters:
            wanted[title] = view_data(title, filters=filters, **look)
    return wanted


def _for_all(people: list[str], look: Json) -> dict[str, Json]:
    """One tab for many, with all tasks of theirs, the latest change first."""
    numbers = sorted(int(key) for key in people if key.isdecimal())[:LIMIT]
    # One condition per annotator: a list as value is saved, but then listing the tabs fails.
    filters = [task_filter("annotators", "contains", "List", number) for number in numbers]
    return {TITLE: view_data(TITLE, filters=filters, **look, order=NEWEST_FIRST)} if numbers else {}


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
