"""One run: statistics -> audit -> knockoffs -> path -> selection -> ranking -> a result to store."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from backend.config import ProjectConfig
from backend.domain import LiveEvidence, Project, RunResult
from backend.report.document import plain, versions
from backend.statistics_cache import Current
from backend.store import Store
from fdr_core import Detection, SufficientStatistics, detect
from fdr_core.live import LiveEvidence as Process
from fdr_core.live import persists

Progress = Callable[[float, str], None]

#: Answers beyond which evidence in time is read only for annotators that some draw selected.
TIMED_ANSWERS = 200_000
#: Kinds of annotation that are kept and counted but not judged.
LEFT_OUT = ("skip", "empty", "draft", "prediction", "unreadable")
PATH_POINTS, PATH_ANNOTATORS = 200, 1000
#: The same seed in every run: flags then change because answers came in, not because coins fell differently.
SEED = 0


def analyse(store: Store, project: Project, current: Current, progress: Progress) -> RunResult:
    """Judge a project on its current statistics."""
    config = ProjectConfig.model_validate(project.config)
    statistics = current.statistics
    note_left_out(store, project, statistics)
    progress(0.02, "statistics are up to date")
    if not len(statistics):
        return _empty_result(current, config)
    detection = detect(
        statistics,
        q=config.q,
        method=config.method,
        path=config.path,
        cut=config.cut,
        copies=config.copies,
        draws=config.draws,
        seed=SEED,
        sides=config.sides,
        min_bias=config.min_bias,
        progress=lambda done, total: progress(0.05 + 0.85 * done / total, f"draw {done} of {total}"),
        clock=time.perf_counter,
    )
    progress(0.92, "evidence")
    _, live = store.get_live(project.id)
    annotators = _annotator_rows(store, project, detection, live)
    persistent = [row for row in annotators if row["persistent"]]
    return RunResult(
        seq=current.seq,
        seed=SEED,
        config=config.to_json(),
        versions=versions(),
        audit=audit_record(detection),
        guarantee=str(detection.guarantee),
        summary=_summary(detection, project, annotators, config),
        timings=plain(detection.timings),
        data_hash=data_hash(statistics),
        annotators=annotators,
        items=_rows(detection.ranking),
        order_changes=_rows(detection.order_changes),
        path=_path_record(detection),
        flags=[{"annotator_id": row["annotator"], "verdict": row["verdict"], "evidence": row} for row in persistent],
    )


def data_hash(statistics: SufficientStatistics) -> str:
    """SHA-256 over the sorted lines ``annotator, left, right, outcome, coin, count`` (tab separated)."""
    answers, annotators, items = statistics.answers(), statistics.annotators, statistics.items
    coins = statistics.coin_labels()
    lines = sorted(
        f"{annotators[a]}\t{items[left]}\t{items[right]}\t{y:.9g}\t{coins.get(coin, '')}\t{weight:.0f}"
        for a, left, right, y, coin, weight in zip(
            answers.annotator.tolist(),
            answers.left.tolist(),
            answers.right.tolist(),
            answers.outcome.tolist(),
            answers.coin.tolist(),
            answers.weight.tolist(),
            strict=True,
        )
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def audit_record(detection: Detection) -> dict[str, Any]:
    """The audit as stored with a run."""
    return {
        "construction": detection.audit.construction,
        "reasons": list(detection.audit.reasons),
        "remedies": list(detection.audit.remedies),
        "figures": plain(detection.audit.figures),
    }


def note_left_out(store: Store, project: Project, statistics: SufficientStatistics) -> None:
    """Tell the audit what is not judged: skips by the sides shown, and counts by reason."""
    counts = {reason: project.counts.get(reason, 0) for reason in LEFT_OUT}
    statistics.excluded.clear()
    statistics.excluded.update({reason: count for reason, count in counts.items() if count})
    statistics.clear_skips()
    if counts["skip"]:
        for row in store.skips(project.id):
            if row["left_item"] and row["right_item"]:
                statistics.skip(row["left_item"], row["right_item"])


def _rows(table: pd.DataFrame) -> list[Mapping[str, Any]]:
    return [{str(name): plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def _annotator_rows(
    store: Store, project: Project, detection: Detection, live: Mapping[str, LiveEvidence]
) -> list[Mapping[str, Any]]:
    """The annotator table with live evidence and evidence in time."""
    timed_everybody = detection.annotators["comparisons"].sum() <= TIMED_ANSWERS
    wanted = [row for row in detection.annotators.to_dict("records") if timed_everybody or row["draw_share"] > 0]
    times = dict(store.answer_times(project.id, [str(row["annotator"]) for row in wanted]))
    table: list[Mapping[str, Any]] = []
    for stored in _rows(detection.annotators):
        row = {**stored, "annotator": str(stored["annotator"])}
        evidence = live.get(row["annotator"])
        process = Process.from_dict(evidence.state) if evidence else Process()
        warned = bool(evidence and evidence.warned_at)
        row["sup_e"] = process.sup_e
        row["warned"] = warned
        row["persistent"] = persists(flagged=bool(row["flagged"]), sup_e=process.sup_e, warned=warned)
        row.update(evidence_in_time(times.get(row["annotator"], [])))
        table.append(row)
    return table


def evidence_in_time(answers: Sequence[tuple[float, float | None, float | None]]) -> dict[str, Any]:
    """First and last answer, median lead time and longest run for one side, of (time, lead time, outcome) in order."""
    if not answers:
        return {}
    leads = [lead for _, lead, _ in answers if lead is not None]
    longest = length = 0
    last_side = 0.0
    for _, _, outcome in answers:
        side = float(np.sign(outcome or 0.0))
        length = length + 1 if side and side == last_side else int(bool(side))
        last_side = side
        longest = max(longest, length)
    return {
        "first_seen": answers[0][0],
        "last_seen": answers[-1][0],
        "median_lead_time": float(np.median(leads)) if leads else None,
        "longest_run": longest,
    }


def _summary(
    detection: Detection, project: Project, annotators: list[Mapping[str, Any]], config: ProjectConfig
) -> dict[str, Any]:
    figures = detection.audit.figures
    seen = [row[name] for row in annotators for name in ("first_seen", "last_seen") if row.get(name) is not None]
    names = ("answers", "annotators", "items", "coins", "coin_source", "excluded")
    data = {**{name: plain(figures[name]) for name in names}, "ties": sum(row["ties"] for row in annotators)}
    return {
        "data": {
            **data,
            "ground_truth": project.counts.get("ground_truth", 0),
            "first_answer": min(seen, default=None),
            "last_answer": max(seen, default=None),
        },
        "parameters": plain(detection.parameters),
        "smallest_list": detection.smallest_list,
        "assessable": figures["assessable"],
        "not_assessable": figures["annotators"] - figures["assessable"],
        "flagged": len(detection.flagged),
        "persistent": sum(bool(row["persistent"]) for row in annotators),
        "warned": sum(bool(row["warned"]) for row in annotators),
        "order_changes": len(detection.order_changes),
        "q": config.q,
    }


def _path_record(detection: Detection) -> dict[str, Any]:
    """The path for plotting: at most 200 points of the 1,000 annotators that move most."""
    record = detection.path_record
    if not len(record.times):
        return {"times": [], "annotators": [], "gamma": []}
    kept = np.unique(np.linspace(0, len(record.times) - 1, PATH_POINTS).round().astype(int))
    reach = np.abs(record.gamma).max(axis=0)
    who = np.argsort(-reach, kind="stable")[:PATH_ANNOTATORS]
    return {
        "times": [round(float(t), 6) for t in record.times[kept]],
        "annotators": [str(record.annotators[j]) for j in who],
        "gamma": [[round(float(g), 5) for g in record.gamma[k, who]] for k in kept],
    }


def _empty_result(current: Current, config: ProjectConfig) -> RunResult:
    reason = "There are no answers to judge yet."
    audit = {"construction": "none", "reasons": [reason], "remedies": ["Collect answers."], "figures": {}}
    kind, sentence = "none proven (nobody judged)", "Nobody was judged, so nobody is flagged; the audit says why."
    counted = ("flagged", "persistent", "warned", "assessable", "not_assessable", "order_changes")
    data = {"answers": 0, "annotators": 0, "items": 0, "coins": 0, "ties": 0, "excluded": {}}
    summary = {"data": data, "q": config.q, **dict.fromkeys(counted, 0)}
    return RunResult(
        seq=current.seq,
        seed=SEED,
        config=config.to_json(),
        versions=versions(),
        audit=audit,
        guarantee=f"{kind}: {sentence}",
        summary=summary,
        timings={},
        data_hash=data_hash(current.statistics),
        flags=[],
    )
