"""Plain records that pass between protocol, store and use cases; times are seconds since the epoch (UTC)."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args

Status = Literal["answer", "skip", "empty", "draft", "prediction", "judge", "unreadable", "erased"]
Kind = Literal["comparison", "alerts", "demo"]
RunStatus = Literal["queued", "running", "done", "failed"]
Choice = Literal["confirm", "dismiss", "watch"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
#: What an account may do: Label Studio's calls; also read; also decide and run; also change settings.
Role = Literal["protocol", "reader", "reviewer", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)


def choice_of(value: object) -> Choice | None:
    """The decision a reviewer chose; None if it was not one of those offered."""
    return next((choice for choice in CHOICES if choice == value), None)


class Trigger(StrEnum):
    """What asked for a run, as stored."""

    MANUAL = "manual"
    SCHEDULE = "schedule"
    TRAINING = "start_training"
    WARNING = "warning"
    CONNECT = "connect"
    ERASURE = "erasure"
    DEMO = "demo"


@dataclass(frozen=True)
class ProjectRef:
    """How Label Studio names a project; the epoch (creation second) tells reinstalled instances apart."""

    ls_project_id: int
    epoch: int | None


@dataclass(frozen=True)
class Project:
    """A Label Studio project as we know it; `id` is ours."""

    id: int
    ls_url: str
    ls_project_id: int
    epoch: int
    title: str
    kind: Kind
    label_config: str
    config: Mapping[str, Any]
    setup_params: Mapping[str, Any]
    task_fields: tuple[str, ...]
    alerts_for: int | None
    seq: int
    live_seq: int
    created_at: float
    ls_updated_at: float | None
    last_event_at: float | None
    last_pull_at: float | None
    last_pull: Mapping[str, Any] | None
    pull_watermark: float | None
    full_pull_needed: bool
    counts: Mapping[str, int]
    deleted_at: float | None
    erased_seq: int = 0
    hinted_at: float | None = None
    agreed: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Comparison:
    """One annotation as read under the project's configuration; `outcome` is None where nothing can be judged.

    `answers` holds the outcome of each control where several are read: one annotation stays one row under one coin.
    `digest` stands for what was answered, as Label Studio has it; `updated_by` says who wrote it last, None where
    nobody is named, as in imports.
    `word` is the answer as text, where it is one. A list gives `pairs` comparisons, a row each: the first has the
    annotation's own id and their number.
    """

    annotation_id: int
    task_id: int | None
    annotator_id: str | None
    left_item: str | None
    right_item: str | None
    coin: str | None
    stratum: str | None
    outcome: float | None
    status: Status
    reason: str | None
    ground_truth: bool
    lead_time: float | None
    created_at: float
    updated_at: float
    answers: Mapping[str, float] | None = None
    digest: str | None = None
    updated_by: str | None = None
    word: str | None = None
    pairs: int | None = None


#: Comparisons that one annotation may hold, and where the ids of all but the first begin.
MOST_PAIRS, FIRST_FURTHER = 1_024, 2**53


def further_ids(annotation_id: int, pairs: int | None, *, since: int = 1) -> range:
    """Ids of the comparisons of a list beyond the first: above those of all annotations and judgements."""
    first = FIRST_FURTHER + annotation_id * MOST_PAIRS
    return range(first + since, first + (pairs or 0))


def plain_answer(
    number: int,
    annotator: str,
    left: str,
    right: str,
    outcome: float,
    *,
    at: float,
    task: int | None = None,
    lead_time: float = 3.0,
) -> Comparison:
    """An answer that counts: not skipped, not ground truth, no coin; its task has the same number unless given."""
    return Comparison(
        annotation_id=number,
        task_id=number if task is None else task,
        annotator_id=annotator,
        left_item=left,
        right_item=right,
        coin=None,
        stratum=None,
        outcome=outcome,
        status="answer",
        reason=None,
        ground_truth=False,
        lead_time=lead_time,
        created_at=at,
        updated_at=at,
    )


@dataclass(frozen=True)
class Task:
    """One Label Studio task: which items stood where, under which coin."""

    task_id: int
    left_item: str | None
    right_item: str | None
    left_label: str | None
    right_label: str | None
    coin: str | None
    stratum: str | None
    is_labeled: bool | None
    updated_at: float
    deleted: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)  # of items that stand in a list
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # characters and marks of items that are texts


@dataclass(frozen=True)
class Batch:
    """Changes to apply in one transaction; `as_of` is the pull's starting sequence number, None for events.

    `reads_anew` tells that settings changed since answers were read: what looks different may be the same answer.
    """

    comparisons: Sequence[Comparison] = ()
    tasks: Sequence[Task] = ()
    deleted_annotations: Sequence[int] = ()
    deleted_tasks: Sequence[int] = ()
    as_of: int | None = None
    events: Sequence[str] = ()
    reads_anew: bool = False


@dataclass(frozen=True)
class Applied:
    """What a batch changed in the store."""

    inserted: int = 0
    updated: int = 0
    revived: int = 0
    deleted: int = 0
    unchanged: int = 0
    unreadable: int = 0
    seq: int = 0

    def __add__(self, other: "Applied") -> "Applied":
        """Add up two batches; the later sequence number stays."""
        names = ("inserted", "updated", "revived", "deleted", "unchanged", "unreadable")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Applied(**sums, seq=max(self.seq, other.seq))

    @property
    def changed(self) -> int:
        """Rows that are different now."""
        return self.inserted + self.updated + self.revived + self.deleted


@dataclass(frozen=True)
class Annotator:
    """A person or judge of one project."""

    annotator_id: str
    name: str | None
    email: str | None
    first_seen: float | None
    team: str | None = None


def shown_name(person: Annotator | None, annotator_id: str) -> str:
    """What somebody is called on cards, tabs and in messages."""
    return (person.name or person.email if person else None) or f"annotator {annotator_id}"


@dataclass(frozen=True)
class Run:
    """One detection, stored whole."""

    id: int
    project_id: int
    status: RunStatus
    trigger: str
    requested_by: str | None
    requested_at: float
    started_at: float | None
    finished_at: float | None
    seq: int | None
    seed: int | None
    config: Mapping[str, Any] | None
    versions: Mapping[str, Any] | None
    audit: Mapping[str, Any] | None
    guarantee: str | None
    summary: Mapping[str, Any] | None
    timings: Mapping[str, Any] | None
    error: str | None
    progress: float | None
    progress_note: str | None
    model_version: str | None
    data_hash: str | None

    @property
    def consensus(self) -> str:
        """How the run's item scores were fitted."""
        return str(((self.summary or {}).get("parameters") or {}).get("consensus", "least squares"))


@dataclass(frozen=True)
class RunResult:
    """What a finished run stores; rows are mappings with the columns of detect's tables."""

    seq: int
    seed: int
    config: Mapping[str, Any]
    versions: Mapping[str, Any]
    audit: Mapping[str, Any]
    guarantee: str
    summary: Mapping[str, Any]
    timings: Mapping[str, Any]
    data_hash: str
    annotators: list[Mapping[str, Any]] = field(default_factory=list)
    items: list[Mapping[str, Any]] = field(default_factory=list)
    order_changes: list[Mapping[str, Any]] = field(default_factory=list)
    path: Mapping[str, Any] | None = None
    flags: list[Mapping[str, Any]] | None = None
    spending: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Lease:
    """A time-limited right to work on something; `token` grows with every takeover."""

    name: str
    owner: str
    token: int
    expires_at: float


@dataclass(frozen=True)
class Page:
    """One page of rows; `cursor` asks for the next, None at the end."""

    rows: list[dict[str, Any]]
    cursor: str | None
    total: int


@dataclass(frozen=True)
class Decision:
    """One line of the append-only log of reviewers' decisions."""

    number: int
    project_id: int
    annotator_id: str
    decision: Choice | Literal["erase", "withdraw", "setting", "withdraw_answers"]
    comment: str
    author: str
    source: str
    source_key: str
    run_id: int | None
    decided_at: float
    recorded_at: float
    previous_hash: str
    hash: str
    salt: str = field(default="", repr=False)
    covers: str | None = None
    redacted_by: int | None = None
    detail: str | None = None


@dataclass(frozen=True)
class ChainCheck:
    """Whether a project's decision log is intact; `broken_at` is the first wrong line; `redacted` lines are counted."""

    intact: bool
    length: int
    broken_at: int | None
    redacted: int = 0


@dataclass(frozen=True)
class Review:
    """A reviewer's answer on a card of the alerts project."""

    project_id: int
    annotator_id: str
    decision: Choice
    comment: str
    author: str
    source_key: str
    decided_at: float


@dataclass(frozen=True)
class Problem:
    """Something a person should look at, with the way out."""

    id: int
    project_id: int | None
    code: str
    message: str
    remedy: str
    first_at: float
    last_at: float
    count: int
    resolved_at: float | None


@dataclass(frozen=True)
class Publication:
    """What we last sent to Label Studio under one key, and how that went."""

    project_id: int
    channel: str
    key: str
    content_hash: str | None
    remote_id: str | None
    state: str
    attempts: int
    next_try_at: float | None
    last_error: str | None
    updated_at: float


@dataclass(frozen=True)
class StoredEvidence:
    """The e-process of one annotator, as the store keeps it between runs."""

    annotator_id: str
    state: Mapping[str, Any]
    log_e: float
    sup_log_e: float
    answers: int
    warned_at: float | None


@dataclass(frozen=True)
class Account:
    """Somebody who may log in, or Label Studio."""

    name: str
    password_hash: str
    role: Role
    created_at: float
    ls_url: str | None = None
    ls_user: str | None = None
    linked_by: str | None = None


def normal_name(name: str) -> str:
    """A name as it is compared and kept: blanks around it, case and ways to write a letter tell nobody apart."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).strip().casefold())
