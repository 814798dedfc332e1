"""A stored run as a report, and beside another run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.domain import Decision, Run
from evenhand.errors import NotFoundError
from evenhand.runs.other_leans import put_together
from evenhand.runs.statistics import history_words
from evenhand.store import Store
from fdr_core.report.document import DATA_KEYS, METHOD_KEYS, document, only, plain
from fdr_core.report.heaviest import heaviest_of
from fdr_core.report.words import count, finding_words, guarantee_parts, p_value, percent, signed

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
