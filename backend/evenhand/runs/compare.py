"""What differs between two finished runs: who appeared, who vanished, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.domain import Run
from evenhand.store import Store
from fdr_core.report.words import count, finding_words, p_value, percent, signed

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
