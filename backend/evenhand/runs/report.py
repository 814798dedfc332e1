"""A stored run as a report, and beside another run; and in words what became of answers later."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.domain import Decision, Project, Run
from evenhand.errors import NotFoundError
from evenhand.store import Store
from evenhand.store.revisions import History, SideCounts
from fdr_core.report.document import DATA_KEYS, METHOD_KEYS, document, only, plain
from fdr_core.report.heaviest import heaviest_of
from fdr_core.report.words import count, duration, finding_words, guarantee_parts, p_value, percent, signed

MOST_CHANGES = 10_000


def report_of_run(store: Store, run: Run, *, title: str | None = None) -> dict[str, Any]:
    """The report of a finished run; all times are the run's, so that copies made later are the same."""
    if run.status != "done":
        raise NotFoundError(f"run {run.id} is {run.status}; only finished runs have a report")
    people = store.annotators.get(run.project_id)
    labels = store.items.labels(run.project_id)
    later = store.revisions.of(run.project_id, upto=run.seq)
    decided = store.decisions.current(run.project_id)
    annotators = [
        {
            **row,
            "name": people[row["annotator"]].name if row["annotator"] in people else None,
            **_decision(decided.get(row["annotator"])),
            "later": history_words(later[row["annotator"]], people) if row["annotator"] in later else None,
        }
        for row in store.findings.all(run.id)
    ]
    ranking = store.rankings.all(run.id)
    summary, audit = run.summary or {}, run.audit or {}
    kind, sentence = guarantee_parts(run.guarantee)
    return document(
        title=title,
        made_at=run.finished_at,
        heaviest_answers=_heaviest(store, run, annotators, ranking),
        data=_run_data(store, run),
        parameters=plain(summary.get("parameters") or run.config or {}),
        audit={
            "found": audit.get("found"),
            "how": audit.get("how"),
            "construction": audit.get("construction", "none"),
            "reasons": list(audit.get("reasons", ())),
            "remedies": list(audit.get("remedies", ())),
            "figures": plain(audit.get("figures", {})),
        },
        guarantee={"kind": kind, "sentence": sentence, "smallest_list": summary.get("smallest_list")},
        method=only(summary, METHOD_KEYS),
        annotators=annotators,
        ranking=[{**row, "label": labels.get(row["item"])} for row in ranking],
        order_changes=store.rankings.order_changes(run.id, limit=MOST_CHANGES),
        versions=plain(run.versions or {}),
        **put_together(summary, annotators),
    )


def _decision(line: Decision | None) -> dict[str, Any]:
    """What a reviewer decided about somebody, who, when and why."""
    if line is None:
        return {}
    return {
        "decision": line.decision,
        "decision_by": line.author,
        "decision_at": line.decided_at,
        "decision_reason": line.comment or None,
    }


def _run_data(store: Store, run: Run) -> dict[str, Any]:
    """Describe the answers a run saw: as it recorded them, else from its audit."""
    figures = (run.audit or {}).get("figures") or {}
    known = {key: figures.get(key) for key in ("answers", "annotators", "items", "coins", "coin_source", "excluded")}
    facts = {
        **known,
        **((run.summary or {}).get("data") or {}),
        "source": store.projects.get(run.project_id).title,
        "run": run.id,
        "finished_at": run.finished_at,
        "sha256": run.data_hash,
        "settings_changed": _settings_changed(store, run),
    }
    return only({**facts, "excluded": facts.get("excluded") or {}}, DATA_KEYS)


def _settings_changed(store: Store, run: Run) -> list[dict[str, Any]]:
    """Which settings this run was the first to use, from what, and who changed them."""
    before = store.runs.before(run)
    changes = store.decisions.setting_changes(
        run.project_id, after=(before.started_at or 0.0) if before else 0.0, until=run.started_at
    )
    return [{"what": line.comment, "by": line.author, "at": line.recorded_at} for line in reversed(changes)]


def _heaviest(
    store: Store, run: Run, annotators: Sequence[Mapping[str, Any]], ranking: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The heaviest answers, from those the run saw and the ranking it made."""
    scores = {row["item"]: row["score"] for row in ranking if row["score"] is not None}

    def seen(annotator: str) -> list[dict[str, Any]]:
        own = store.comparisons.of_annotator(run.project_id, annotator)
        return [answer for answer in own if answer["seq"] <= (run.seq or 0)]

    return heaviest_of(annotators, seen, scores, run.consensus)


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Changed:
    """One annotator whose flag differs, with the reasons in words."""

    annotator: str
    before: Row | None
    after: Row | None
    reasons: list[str]


@dataclass(frozen=True)
class RunDifference:
    """Two runs side by side."""

    appeared: list[Changed]
    vanished: list[Changed]
    stayed: list[str]
    settings: list[tuple[str, Any, Any]]
    same_data: bool


def compare_runs(store: Store, older: Run, newer: Run) -> RunDifference:
    """Compare the flags and settings of two finished runs."""
    was, now = store.findings.flagged(older.id), store.findings.flagged(newer.id)
    appeared, vanished = _only_in(now, was), _only_in(was, now)
    before, after = (store.findings.rows(run.id, (*appeared, *vanished)) for run in (older, newer))
    settings = _settings(older.config or {}, newer.config or {})
    constructions = tuple(((run.audit or {}).get("construction")) for run in (older, newer))

    def changed(key: str) -> Changed:
        return Changed(key, before.get(key), after.get(key), _reasons(before.get(key), after.get(key), constructions))

    return RunDifference(
        appeared=[changed(key) for key in appeared],
        vanished=[changed(key) for key in vanished],
        stayed=_only_in(now, appeared),
        settings=settings,
        same_data=older.data_hash is not None and older.data_hash == newer.data_hash,
    )


def _only_in(keys: Sequence[str], others: Sequence[str]) -> list[str]:
    """Those that are not among the others, in their order."""
    known = set(others)
    return [key for key in keys if key not in known]


def _settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Settings that differ; when and what is published changes no finding."""
    ignored = {"publish", "every_minutes", "every_answers"}
    names = sorted({*before, *after} - ignored)
    return [(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def _reasons(before: Row | None, after: Row | None, constructions: tuple[Any, ...]) -> list[str]:
    """What changed about one annotator."""
    if before is None:
        return ["no answers in the earlier run"]
    if after is None:
        return ["no answers left in the later run"]
    reasons = []
    if before["comparisons"] != after["comparisons"]:
        reasons.append(f"{count(before['comparisons'])} → {count(after['comparisons'])} answers")
    words = [finding_words(row["finding"]) for row in (before, after)]
    if words[0] != words[1]:
        reasons.append(f"{words[0]} → {words[1]}")
    reasons.append(f"lean {signed(before['bias'])} → {signed(after['bias'])}")
    reasons.append(f"adjusted p {p_value(before['q_value'])} → {p_value(after['q_value'])}")
    reasons.append(f"selected in {percent(before.get('lbi_share'))} → {percent(after.get('lbi_share'))} of the draws")
    if len(set(constructions)) > 1:
        reasons.append("the design audit chose another construction")
    return reasons


#: What a run does in each stage.
STAGE_WORDS = {
    "read": "reading the answers",
    "audit": "asking whether chance decided the sides",
    "tests": "testing each annotator",
    "LBI": "drawing knockoffs",
    "ranking": "ranking the items",
    "report": "writing the report",
}


def progress_words(run: Run, now: float) -> str:
    """What a run is doing, and about how long it still takes: from a second on, once that can be told."""
    words: Mapping[str, str] = {"queued": "waiting for a worker", "done": "finished", "failed": run.error or "failed"}
    if run.status in words:
        return words[run.status]
    share, spent = run.progress or 0.0, now - (run.started_at or now)
    left = f", about {duration(spent * (1 - share) / share)} left" if spent >= 1.0 and 0.05 <= share < 1.0 else ""
    return f"{run.progress_note or 'starting'}{left}"


def put_together(summary: Mapping[str, Any], annotators: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The lists of a stored run, from its summary and the rows of its annotators."""
    lists = []
    for one in summary.get("other_leans") or []:
        own = [
            {**row["leans"][one["lean"]], "annotator": row["annotator"], "name": row.get("name")}
            for row in annotators
            if one["lean"] in (row.get("leans") or {})
        ]
        rows = [{**row} for row in sorted(own, key=lambda row: int(row.pop("place")))]
        lists.append({**one, "annotators": rows})
    return {"other_leans": lists, "without_taste": summary.get("without_taste")}


PROBLEM = "answers_revised"
#: Revisions are named in a problem for so long; the annotator's page shows all of them.
SHOWN_SECONDS = 30 * 86_400.0
#: Deletions do not tell who made them: so many of one person's answers are worth a look.
MANY_DELETIONS = 5
WORDS: Mapping[str, str] = {
    "edit": "edited",
    "delete": "removed",
    "written": "written in their name",
    "vanished": "told of by events and never shown by Label Studio, so they count for nothing",
    "author": "given another author",
    "task": "shown with other items",
    "mark": "marked as ground truth or not",
}


def report_revisions(store: Store, project: Project) -> None:
    """Name in a problem whose answers were touched by others, and by whom as far as that is known."""
    found: dict[tuple[str, str, str | None], set[int]] = {}
    for row in store.revisions.since(project.id, store.clock() - SHOWN_SECONDS):
        if row["annotator_id"] is not None and row["by_id"] != row["annotator_id"]:
            key = (row["kind"], row["annotator_id"], row["by_id"])
            found.setdefault(key, set()).add(row["annotation_id"])
    counts = Counter({key: len(ids) for key, ids in found.items() if key[0] != "delete" or len(ids) >= MANY_DELETIONS})
    if not counts:
        store.problems.resolve(project.id, PROBLEM)
        return
    named = store.annotators.get(project.id)
    told = "; ".join(_sentence(*key, number, named) for key, number in counts.most_common(10))
    more = len(counts) - 10
    store.problems.open(
        project.id,
        PROBLEM,
        f"{told}{f'; and {more} more' if more > 0 else ''}. Evidence is made of first submissions and stays as it was",
        "Ask who did it and why. If answers should not count, an owner withdraws them on the annotator's page.",
    )


def history_words(history: History, named: Mapping[str, Any]) -> str:
    """What became of somebody's answers later, by the side first chosen; evidence is of first submissions."""
    told = [
        _by_side(history.removed, "removed later"),
        _by_side(history.edited, "edited later"),
        _by_side(history.written_by_others, "written by others in this name, which are evidence against nobody"),
    ]
    others = history.edited_by_others.total
    if others:
        told[1] += f" ({others} not by the annotator)"
    if history.by:
        told.append(f"by {', '.join(_name(user, named) for user in history.by[:5])}")
    return "; ".join(part for part in told if part)


def _by_side(counts: SideCounts, what: str) -> str:
    """So many answers, and for which side they were; nothing where there are none."""
    if not counts.total:
        return ""
    sides = [(counts.right, "right"), (counts.left, "left"), (counts.ties, "a tie")]
    parts = ", ".join(f"{number} of them {side}" for number, side in sides if number)
    return f"{'1 answer was' if counts.total == 1 else f'{counts.total} answers were'} {what}, {parts}"


def _sentence(kind: str, annotator: str, by: str | None, number: int, named: Mapping[str, Any]) -> str:
    """One fact in words."""
    answers = "an answer" if number == 1 else f"{number} answers"
    who = "by whom is not known" if by is None else f"by {_name(by, named)}"
    return f"{answers} of {_name(annotator, named)} {'was' if number == 1 else 'were'} {WORDS[kind]}, {who}"


def _name(user: str, named: Mapping[str, Any]) -> str:
    """A user as people know them."""
    person = named.get(user)
    return f"{person.name} (user {user})" if person is not None and person.name else f"user {user}"
