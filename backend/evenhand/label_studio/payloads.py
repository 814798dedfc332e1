"""Label Studio's JSON to our records and back; the only module that knows its field names.

Annotation ids are unique within a Label Studio instance. Drafts have ids of their own, so a draft is kept under
its negated id. Alert cards carry the task data fields ALERT_PROJECT and ALERT_ANNOTATOR.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenhand.domain import MOST_PAIRS, Comparison, ProjectRef, Review, Task, choice_of, further_ids
from evenhand.errors import PayloadError
from evenhand.json_values import MAX_ID, Json, an_id, an_object, ids, objects, parse_json, parse_time, seen
from evenhand.json_values import clean as clean
from evenhand.judged import coin_label
from fdr_core.inputs.item_keys import item_key, text_size
from fdr_core.inputs.label_studio.answers import Given, GivenStatus, Pair, read_answer, shown_contents
from fdr_core.inputs.label_studio.reading import ReadControl, Reading
from fdr_core.inputs.label_studio.results import annotator_of, field_value, lead_time_of, results_of

ALERT_PROJECT = "evenhand_project"
#: Task data that a review tab shows, where it may write them: whose answer, the consensus, how much it says.
COLUMNS = ("evenhand_answer", "evenhand_consensus", "evenhand_weight")
ALERT_ANNOTATOR = "evenhand_annotator"

ANNOTATION_EVENTS = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED", "ANNOTATIONS_UPDATED")
ANNOTATION_DELETIONS = ("ANNOTATION_DELETED", "ANNOTATIONS_DELETED")
TASK_EVENTS = ("TASK_CREATED", "TASKS_CREATED", "TASK_UPDATED", "TASKS_UPDATED")
TASK_DELETIONS = ("TASK_DELETED", "TASKS_DELETED")
PROJECT_EVENTS = ("PROJECT_CREATED", "PROJECT_UPDATED", "PROJECT_DELETED")
TRAINING = "START_TRAINING"
KNOWN_ACTIONS = frozenset(
    (*ANNOTATION_EVENTS, *ANNOTATION_DELETIONS, *TASK_EVENTS, *TASK_DELETIONS, *PROJECT_EVENTS, TRAINING)
)

LABEL = 200
OUR_VERSIONS = "evenhand"
#: Annotator ids of judges begin with this; those of people are numbers.
JUDGE = "judge:"
FIRST_JUDGEMENT = 2**52
NO_READING = "the project's settings do not fit its label config"


@dataclass(frozen=True)
class ProjectInfo:
    """What a payload says about its project; None where it says nothing."""

    ref: ProjectRef
    title: str | None = None
    label_config: str | None = None
    updated_at: float | None = None


@dataclass(frozen=True)
class Setup:
    """The body of /setup, without its token."""

    project: ProjectInfo
    hostname: str
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Event:
    """The body of /webhook, without tokens; raw annotations and tasks are read under the project's settings later."""

    action: str
    project: ProjectInfo
    annotations: Sequence[Json] = ()
    tasks: Sequence[Json] = ()
    deleted_annotations: Sequence[int] = ()
    deleted_tasks: Sequence[int] = ()
    is_verified: bool = True


def read_setup(body: Any) -> Setup:
    """Read /setup; extra_params may be an object or JSON text of one."""
    body = an_object(body, "the /setup body")
    params = body.get("extra_params")
    if isinstance(params, str):
        params = parse_json(params.encode("utf-8", "replace")) if params.strip() else {}
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise PayloadError(f'extra_params is {seen(params)}; expected an object such as {{"item_left": "id1"}}')
    schema = body.get("schema")
    if not isinstance(schema, str):
        raise PayloadError(f"schema is {seen(schema)}; expected the label config as text")
    hostname = body.get("hostname")
    return Setup(
        project=ProjectInfo(project_ref(body.get("project")), label_config=schema),
        hostname=hostname.strip().rstrip("/")[:500] if isinstance(hostname, str) else "",
        params=params,
    )


def read_event(body: Any) -> Event:
    """Read a webhook body; single and plural events, lists and objects alike."""
    body = an_object(body, "the /webhook body")
    action = body.get("action")
    if not isinstance(action, str) or not action:
        raise PayloadError(f"action is {seen(action)}; expected an event name such as ANNOTATION_CREATED")
    project = project_info(body.get("project"), body)
    annotations = objects(body, "annotation", "annotations")
    tasks = objects(body, "task", "tasks")
    if action in ANNOTATION_DELETIONS:
        return Event(action, project, deleted_annotations=ids(annotations, "annotations"))
    if action in TASK_DELETIONS:
        return Event(action, project, deleted_tasks=ids(tasks, "tasks"))
    if action in ANNOTATION_EVENTS:
        if not annotations:
            raise PayloadError(f"{action} carries no annotation; expected an object or a list under 'annotation'")
        ids(annotations, "annotation")
        ids([{"id": raw["task"]} for raw in annotations if raw.get("task") is not None], "annotation.task")
        if len(tasks) == 1:
            annotations = [raw if raw.get("task") else {**raw, "task": tasks[0].get("id")} for raw in annotations]
        return Event(action, project, annotations=annotations, tasks=tasks)
    if action in TASK_EVENTS:
        return Event(action, project, tasks=tasks)
    return Event(action, project)


def project_ref(value: Any) -> ProjectRef:
    """Read "<id>.<epoch>", an id, or a project object."""
    if isinstance(value, dict):
        created = parse_time(value.get("created_at"))
        return ProjectRef(an_id(value.get("id"), "project.id"), None if created is None else int(created))
    if isinstance(value, str):
        number, _, epoch = value.partition(".")
        if re.fullmatch(r"\d{1,19}", number) and re.fullmatch(r"\d{0,12}", epoch):
            return ProjectRef(an_id(int(number), "project"), int(epoch) if epoch else None)
    elif isinstance(value, int) and not isinstance(value, bool):
        return ProjectRef(an_id(value, "project"), None)
    raise PayloadError(f'project is {seen(value)}; expected "<id>.<creation epoch>", an id or a project object')


def project_info(value: Any, body: Mapping[str, Any]) -> ProjectInfo:
    """What a webhook says about the project; events without a project object name it in the annotation or task."""
    if value is None:
        nested = objects(body, "annotation", "annotations") or objects(body, "task", "tasks")
        value = nested[0].get("project") if nested else None
    ref = project_ref(value)
    if not isinstance(value, dict):
        return ProjectInfo(ref)
    label_config, title = value.get("label_config"), value.get("title")
    return ProjectInfo(
        ref,
        title=title[:500] if isinstance(title, str) else None,
        label_config=label_config if isinstance(label_config, str) else None,
        updated_at=parse_time(value.get("updated_at")),
    )


def read_task(task: Json, reading: Reading | None) -> Task:
    """Read a task; item fields stay None where the data lack them or the project cannot be read."""
    data = task.get("data")
    data = data if isinstance(data, dict) else {}
    labeled = task.get("is_labeled")
    nothing: tuple[str | None, str | None] = (None, None)
    left = right = nothing
    coin = stratum = None
    labels: dict[str, str] = {}
    contents: list[Any] = []
    if reading is not None:
        if reading.is_one_pair:
            contents = [field_value(data, name) for name in (reading.item_left, reading.item_right)]
            left, right = item_of(data, reading.item_left), item_of(data, reading.item_right)
        else:
            contents = list(shown_contents(data, reading))
            labels = {key: label for key, label in map(_labelled, contents) if key and label}
        coin = item_of(data, reading.coin)[0] if reading.coin else None
        stratum = item_of(data, reading.stratum)[0] if reading.stratum else None
    return Task(
        task_id=an_id(task.get("id"), "task.id"),
        left_item=left[0],
        right_item=right[0],
        left_label=left[1],
        right_label=right[1],
        coin=coin,
        stratum=stratum,
        is_labeled=labeled if isinstance(labeled, bool) else None,
        updated_at=parse_time(task.get("updated_at")) or parse_time(task.get("created_at")) or 0.0,
        labels=labels,
        sizes={item_key(text): size for text in contents if (size := text_size(text))},
    )


def read_comparisons(
    annotation: Json, task: Task | None, reading: Reading | None, data: Mapping[str, Any] | None = None
) -> list[Comparison]:
    """Read one annotation with the task's data: of a list or a Repeater every pair, all of them under its coin."""
    given = _given(annotation, reading, data)
    if given.status in ("answer", "prediction") and reading is not None and not reading.is_one_pair:
        pairs = [pair for pair in given.pairs if pair.left != pair.right]
        if not pairs:
            given = Given("unreadable", "the task compares items with themselves")
        elif len(pairs) >= MOST_PAIRS:
            given = Given("unreadable", f"one annotation holds {len(pairs):,} comparisons; at most {MOST_PAIRS - 1:,}")
        else:
            return _rows_of(_comparison(annotation, task, given), pairs)
    return [read_comparison(annotation, task, reading, given)]


def _rows_of(row: Comparison, pairs: Sequence[Pair]) -> list[Comparison]:
    """A row for each pair; the time that the annotation took is told once."""
    ids = [row.annotation_id, *further_ids(row.annotation_id, len(pairs))]
    if ids[-1] > MAX_ID:
        raise PayloadError(f"annotation.id is {row.annotation_id}; a list under it cannot be stored")
    rows = []
    for place, (number, pair) in enumerate(zip(ids, pairs, strict=True)):
        own = {"pairs": len(pairs)} if place == 0 and len(pairs) > 1 else {} if place == 0 else {"lead_time": None}
        coin = f"{coin_label(row.coin, row.task_id)} #{pair.question}" if pair.question else row.coin
        shown = {"left_item": pair.left, "right_item": pair.right, "outcome": pair.outcome, "coin": coin}
        rows.append(Comparison(**{**row.__dict__, **shown, **own, "annotation_id": number}))
    return rows


def read_comparison(
    annotation: Json, task: Task | None, reading: Reading | None, given: Given | None = None
) -> Comparison:
    """Read one answer; whatever cannot be judged is kept with a status and a reason, never guessed."""
    given = given or _given(annotation, reading, None)
    problem = _unjudgeable(task, reading)
    if problem and given.status in ("answer", "prediction"):
        given = Given("unreadable", problem)
    return _comparison(annotation, task, given)


def _comparison(annotation: Json, task: Task | None, given: Given) -> Comparison:
    """A row as Label Studio has it; whose an answer is that names nobody, the store may know."""
    left, right = (task.left_item, task.right_item) if task else (None, None)
    created = parse_time(annotation.get("created_at"))
    updated = parse_time(annotation.get("updated_at"))
    return Comparison(
        annotation_id=an_id(annotation.get("id"), "annotation.id"),
        task_id=_task_id(annotation, task),
        annotator_id=_annotator(annotation.get("completed_by")),
        left_item=left,
        right_item=right,
        coin=task.coin if task else None,
        stratum=task.stratum if task else None,
        outcome=given.outcome,
        status=given.status,
        reason=given.reason if given.status == "unreadable" else None,
        ground_truth=annotation.get("ground_truth") is True,
        lead_time=lead_time_of(annotation.get("lead_time")),
        created_at=created if created is not None else updated or 0.0,
        updated_at=updated if updated is not None else created or 0.0,
        answers=given.answers,
        digest=_digest(annotation),
        updated_by=_annotator(annotation.get("updated_by")),
        word=given.word,
    )


def _digest(annotation: Json) -> str:
    """What was answered, whatever else an update touched: the same for the same results, in any order."""
    results = [[result.get(key) for key in ("from_name", "type", "value")] for result in results_of(annotation)]
    text = json.dumps([annotation.get("was_cancelled") is True, sorted(map(json.dumps, results))])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def read_draft(draft: Json, task: Task, reading: Reading | None, _: object = None) -> list[Comparison]:
    """Read an unsubmitted draft: kept and marked, under its negated id, never judged."""
    row = read_comparison({**draft, "completed_by": draft.get("user")}, task, reading)
    changes = {"annotation_id": -row.annotation_id, "status": "draft", "reason": None, "outcome": None, "answers": None}
    return [Comparison(**{**row.__dict__, **changes})]


def read_judgement(prediction: Json, task: Task, reading: Reading | None, data: Any = None) -> list[Comparison]:
    """Read a stored prediction as the answer of the judge that its model version names; nothing if it names none.

    Predictions have ids of their own, so theirs are kept above all those of annotations.
    """
    version = prediction.get("model_version")
    if not isinstance(version, str) or not version.strip() or version.startswith(OUR_VERSIONS):
        return []
    number = FIRST_JUDGEMENT + an_id(prediction.get("id"), "prediction.id")
    rows = read_comparisons({**prediction, "id": number, "completed_by": JUDGE + version[:150]}, task, reading, data)
    return [replace(row, status="judge") if row.status in ("answer", "prediction") else row for row in rows]


def read_review(annotation: Json, task: Json, alerts_project_id: int) -> Review | None:
    """Read a reviewer's answer on an alert card; None if it holds no decision."""
    data = task.get("data") if isinstance(task.get("data"), dict) else {}
    assert isinstance(data, dict)
    project, annotator = data.get(ALERT_PROJECT), data.get(ALERT_ANNOTATOR)
    if isinstance(project, str) and project.isdecimal() and len(project) < 19:
        project = int(project)
    if not isinstance(project, int) or annotator is None or annotation.get("was_cancelled") is True:
        return None
    choice, comment = None, ""
    for result in results_of(annotation):
        value = result.get("value")
        value = value if isinstance(value, dict) else {}
        choices, text = value.get("choices"), value.get("text")
        if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], str):
            choice = choice_of(choices[0].strip().lower()) or choice
        if isinstance(text, list):
            comment = "\n".join(str(part) for part in text)[:5000]
    if choice is None:
        return None
    at = parse_time(annotation.get("updated_at")) or 0.0
    number = an_id(annotation.get("id"), "annotation.id")
    author = _annotator(annotation.get("completed_by")) or "unknown"
    key = f"label-studio:{alerts_project_id}:{number}:{at:.6f}"
    return Review(project, str(annotator), choice, comment, f"Label Studio user {author}", key, at)


def item_of(data: Mapping[str, Any], field: str) -> tuple[str | None, str | None]:
    """Item id and readable label of a data field; long content and addresses get a short name of their own."""
    return _labelled(field_value(data, field))


def _labelled(value: Any) -> tuple[str | None, str | None]:
    """The short name of an item, and what people read."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None, None
    key = item_key(value)
    if isinstance(value, str) and key != value and not re.match(r"\s*([a-z][a-z0-9+.-]*://|data:|/data/)", value, re.I):
        flat = " ".join(value[: LABEL * 4].split())
        return key, flat if len(flat) <= LABEL else flat[: LABEL - 1] + "…"
    return key, key


def prediction(task: Task, reading: Reading, lean: float | None, model_version: str) -> Json:
    """One /predict entry: the consensus winner on finished tasks, nothing pre-selected on open ones.

    Controls that are judged together have one consensus between them, which is the answer to none of them.
    """
    empty = {"result": [], "score": 0.0, "model_version": model_version}
    control = reading.decides
    if lean is None or control is None or not reading.is_one_pair or task.is_labeled is not True:
        return empty
    answer = _nearest_answer(control.outcomes, lean)
    if answer is None:
        return empty
    left_probability = min(0.98, max(0.02, (1.0 + lean) / 2.0))
    result = {
        "id": f"evenhand-{task.task_id}",
        "from_name": control.name,
        "to_name": control.object_name,
        "type": control.type,
        "value": _answer_value(control, answer),
    }
    return {**empty, "result": [result], "score": round(max(left_probability, 1.0 - left_probability), 6)}


def _given(annotation: Json, reading: Reading | None, data: Mapping[str, Any] | None) -> Given:
    """What the annotation holds; without a reading whether it holds anything."""
    if reading is not None:
        return read_answer(annotation, reading, data)
    is_empty = annotation.get("result") in (None, [])
    status: GivenStatus = "skip" if annotation.get("was_cancelled") is True else "empty" if is_empty else "unreadable"
    return Given(status, NO_READING if status == "unreadable" else None)


def _unjudgeable(task: Task | None, reading: Reading | None) -> str | None:
    """Why an answer cannot be judged although it was given, or None."""
    if reading is None:
        return NO_READING
    if task is None:
        return "the task's data are not known yet"
    if not reading.is_one_pair:
        return None
    missing = [
        field
        for field, item in ((reading.item_left, task.left_item), (reading.item_right, task.right_item))
        if item is None
    ]
    if missing:
        return f"the task's data have no {' and no '.join(map(repr, missing))}"
    if task.left_item == task.right_item:
        return f"the task compares item {task.left_item!r} with itself"
    return None


def _task_id(annotation: Json, task: Task | None) -> int | None:
    """The task an annotation belongs to."""
    if task is not None:
        return task.task_id
    value = annotation.get("task")
    return an_id(value, "annotation.task") if value is not None else None


def _annotator(value: Any) -> str | None:
    """Annotator id as text; completed_by is an id or a user object."""
    who = annotator_of(value)
    return None if who is None else str(who)[:200]


def _nearest_answer(outcomes: Mapping[str, float], lean: float) -> str | None:
    """The answer on the winning side that is nearest to the lean; None for a draw."""
    same_side = [answer for answer, outcome in outcomes.items() if outcome * lean > 0]
    return min(same_side, key=lambda answer: abs(outcomes[answer] - lean)) if same_side else None


def _answer_value(control: ReadControl, answer: str) -> Json:
    """An answer in Label Studio's form."""
    if control.type == "pairwise":
        return {"selected": answer}
    return {"choices": [answer]} if control.type == "choices" else {"rating": int(float(answer))}


def data_fields(tasks: Iterable[Mapping[str, Any]]) -> set[str]:
    """The data fields that tasks have, but for those that tabs write into them."""
    return {str(name) for task in tasks if isinstance(task.get("data"), dict) for name in task["data"]} - {*COLUMNS}
