"""One run: statistics -> audit -> exact tests -> list, knockoff LBI beside it -> ranking -> a result to store."""

import hashlib
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from evenhand.domain import Project, RunResult
from evenhand.judged import Policy
from evenhand.project_config import ProjectConfig
from evenhand.runs.live import settle_warnings, sides_remedy
from evenhand.runs.other_leans import by_annotator, other_leans
from evenhand.runs.report import STAGE_WORDS, report_revisions
from evenhand.runs.review_priority import label_again
from evenhand.runs.statistics import (
    Current,
    StatisticsCache,
    corrected,
    judged_beside,
    ranking_as_it_stands,
)
from evenhand.store import Store
from fdr_core import Detection, InputError, SufficientStatistics, detect, evidence
from fdr_core._version import versions
from fdr_core.agreement import agreement
from fdr_core.answer_table import AnswerTable
from fdr_core.audit import audit
from fdr_core.changes import lean_changes
from fdr_core.errors import FdrCoreError
from fdr_core.findings import NOT_ASSESSABLE
from fdr_core.guarantee import NOBODY
from fdr_core.inputs.sanity import looks_broken
from fdr_core.progress import Progress as Stages
from fdr_core.progress import share_done
from fdr_core.randomisation.shared import as_e
from fdr_core.report.document import plain
from fdr_core.report.words import ASK_SIDES
from fdr_core.spending import LastingFlags, Spending

Progress = Callable[[float, str], None]
#: What of a run is done when detection ends.
DETECTION = 0.9

#: Answers beyond which evidence in time is read only for annotators who seem to lean.
TIMED_ANSWERS = 200_000
PATH_POINTS, PATH_ANNOTATORS = 200, 1000


def analyse(store: Store, project: Project, current: Current, progress: Progress) -> RunResult:
    """Judge a project on its current statistics."""
    config = ProjectConfig.model_validate(project.config)
    statistics = current.statistics
    note_left_out(store, project, statistics)
    report_revisions(store, project)
    withdrawn = store.decisions.withdrawn_answers(project.id)
    differing = store.revisions.corrections(project.id, current.seq, withdrawn)
    with corrected(current, differing.evidence):
        if not len(statistics):
            settle_warnings(store, project, None, config.q)
            return _empty_result(current, config)
        _refuse_moved(store, project, statistics)
        if misread := looks_misread(statistics, config):
            raise InputError(misread)
        detection = detect(
            statistics,
            **config.detection(),
            progress=partial(tell_stage, progress),
            clock=time.perf_counter,
        )
        judged_hash = data_hash(statistics)
        trend, daily = _trend(statistics, detection, config.q)
    if differing.evidence:
        with corrected(current, differing.ranking):
            standing = ranking_as_it_stands(statistics, detection, consensus=config.consensus)
        if standing is not None:
            fit, table = standing
            changes = fit.order_changes(table.items)
            detection = replace(detection, ranking=fit.table(table.items), order_changes=changes)
    progress(DETECTION, "putting the evidence together")
    settle_warnings(store, project, detection.audit.how, config.q, detection.audit.reasons)
    lasting, spent = _lasting_flags(store, project, detection, config.q)
    beyond = other_leans(store, project, config)
    annotators = _annotator_rows(store, project, detection, lasting, by_annotator(beyond["other_leans"]), trend)
    beyond["other_leans"] = [{**one, "annotators": []} for one in beyond["other_leans"]]  # theirs stand with them
    persistent = [row for row in annotators if row["persistent"]]
    again = label_again(store, project.id, detection, statistics)
    return RunResult(
        seq=current.seq,
        seed=config.options.seed,
        config=config.to_json(),
        versions=versions(),
        audit=_with_command(plain(detection.audit.as_dict()), detection, project, store),
        guarantee=str(detection.guarantee),
        summary={**_summary(detection, project, annotators, config), "label_again": again, "daily": daily, **beyond},
        timings=plain(detection.timings),
        data_hash=judged_hash,
        annotators=annotators,
        items=_rows(detection.ranking),
        order_changes=_rows(detection.order_changes),
        path=_path_record(detection),
        flags=[{"annotator_id": row["annotator"], "finding": row["finding"], "evidence": row} for row in persistent],
        spending=spent,
    )


def tell_stage(progress: Progress, stage: str, done: int, of: int) -> None:
    """Pass on what detection, or the reading before it, says of its progress."""
    counted = "" if of == 1 else f": {done:,} of {of:,}"
    progress(DETECTION * share_done(stage, done, of), f"{STAGE_WORDS[stage]}{counted}")


def data_hash(statistics: SufficientStatistics) -> str:
    """SHA-256 over the sorted lines ``annotator, left, right, outcome, coin, count`` (tab separated).

    Lines begin with the annotator, so sorting annotators and then each one's lines is sorting them all, and a million
    lines never stand in memory together.
    """
    answers, coins = statistics.answers(), statistics.coin_labels()
    items = [str(item) for item in statistics.items]
    outcomes = {float(y): f"{y:.9g}" for y in np.unique(answers.outcome)}  # a few values, a million times
    names = [f"{annotator}\t" for annotator in statistics.annotators]
    order = np.argsort(answers.annotator, kind="stable")
    bounds = np.searchsorted(answers.annotator[order], np.arange(len(names) + 1))
    digest, is_first = hashlib.sha256(), True
    for who in sorted(range(len(names)), key=names.__getitem__):
        own = answers.take(order[bounds[who] : bounds[who + 1]])
        lines = sorted(
            f"{names[who]}{items[left]}\t{items[right]}\t{outcomes[y]}\t{coins.get(coin, '')}\t{weight:.0f}"
            for left, right, y, coin, weight in zip(
                own.left.tolist(),
                own.right.tolist(),
                own.outcome.tolist(),
                own.coin.tolist(),
                own.weight.tolist(),
                strict=True,
            )
        )
        if lines:
            digest.update(("" if is_first else "\n").encode() + "\n".join(lines).encode())
            is_first = False
    return digest.hexdigest()


def _asks_for_sides(detection: Detection) -> bool:
    """Whether only the owner can tell if anybody may be judged: there are enough answers, but the sides are in
    doubt."""
    return detection.audit.how == "none" and detection.audit.figures["assessable"] > 0


#: Problems of how answers are read; a run's audit names those that are open.
READING_PROBLEMS = frozenset({"unreadable_answers", "setup_changed", "reads_less", "reading_guessed", "configuration"})


def _with_command(audit: dict[str, Any], detection: Detection, project: Project, store: Store) -> dict[str, Any]:
    """The audit, with what is wrong with the reading of answers, and with the command that answers its question."""
    wrong = [problem for problem in store.problems.find(project.id) if problem.code in READING_PROBLEMS]
    audit = {**audit, "reasons": [*(f"Reading: {one.message}." for one in wrong), *audit["reasons"]]}
    if not _asks_for_sides(detection):
        return audit
    return {**audit, "remedies": [sides_remedy(project), *audit["remedies"]]}


def note_left_out(store: Store, project: Project, statistics: SufficientStatistics) -> None:
    """Tell the audit what is not judged: skips by the sides shown, counts by reason; and when answers were given."""
    statistics.excluded.clear()
    statistics.excluded.update(Policy.of(project.config).left_out(project.counts))
    statistics.clear_skips()
    if statistics.excluded.get("skip"):
        for row in store.comparisons.skips(project.id):
            if row["left_item"] and row["right_item"]:
                statistics.skip(row["left_item"], row["right_item"], annotator=row["annotator_id"])
    few = project.counts.get("judged", 0) <= TIMED_ANSWERS
    statistics.note_times(store.comparisons.shown(project.id) if few else ())


def _refuse_moved(store: Store, project: Project, statistics: SufficientStatistics) -> None:
    """Raise where tasks do not show their items as the seed of their coin has it, and name them."""
    moved = statistics.sides_by_seed() < 0
    if moved.any():
        labels = statistics.coin_labels()
        coins = {labels[code] for code in np.unique(statistics.answers().coin[moved]).tolist()}
        tasks = [str(task.task_id) for task in store.tasks.all(project.id) if task.coin in coins]
        raise InputError(
            f"tasks {', '.join(tasks[:10])}{' and more' if len(tasks) > 10 else ''} show their items on other sides "
            "than the seed in their coin does: they were moved after the coins were drawn; restore them, or name "
            "another field for the coin"
        )


def looks_misread(statistics: SufficientStatistics, config: ProjectConfig) -> str:
    """What was seen where answers look as a wrong reading makes them, and what to do; "" where they do not."""
    answers = statistics.answers()
    seen = "" if config.one_sided else looks_broken(answers.annotator, answers.outcome)
    return seen and (
        f"nobody is judged, since the answers look as a wrong reading makes them: {seen}; correct what answers mean in "
        "the settings under Reading, or switch on “One-sided answers are meant” there (`--one-sided true`)"
    )


def _rows(table: pd.DataFrame) -> list[Mapping[str, Any]]:
    return [{str(name): plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def _lasting_flags(
    store: Store, project: Project, detection: Detection, q: float
) -> tuple[set[str], Mapping[str, Mapping[str, Any]]]:
    """Who has a lasting flag with this run, and how the run changed everybody's spending."""
    states = store.spending.all(project.id).items()
    before: dict[Hashable, Spending] = {key: Spending.from_dict(state) for key, state in states}
    flags, tests = LastingFlags(q, before), detection.exact.annotators
    answers = detection.annotators.set_index("annotator")["comparisons"]
    names = [str(label) for label in tests["annotator"]]
    counts, p_values = answers[tests["annotator"]].to_numpy(), tests["listed_p_value"].to_numpy()
    weights, independent = tests["weight"].to_numpy(), detection.exact.independent
    lasting = flags.look(names, counts, p_values, weights, independent=independent)
    changed = {str(key): state.as_dict() for key, state in flags.states.items() if before.get(key) != state}
    # Where nobody can be judged nobody stays accused; what was spent is kept for when somebody can be again.
    return ({str(key) for key in lasting} if detection.audit.how != "none" else set()), changed


def _annotator_rows(
    store: Store,
    project: Project,
    detection: Detection,
    lasting: Collection[str],
    leans: Mapping[str, dict[str, Any]],
    trend: Mapping[str, dict[str, Any]],
) -> list[Mapping[str, Any]]:
    """The annotator table with lasting flags, live evidence and evidence in time."""
    _, live = store.live.standing(project.id)
    timed_everybody = detection.annotators["comparisons"].sum() <= TIMED_ANSWERS
    wanted = [row for row in detection.annotators.to_dict("records") if timed_everybody or _is_of_interest(row)]
    timed = evidence_in_time(dict(store.comparisons.times(project.id, [str(row["annotator"]) for row in wanted])))
    beside = judged_beside(store, project)
    table: list[Mapping[str, Any]] = []
    for stored in _rows(detection.annotators):
        row = {**stored, "annotator": str(stored["annotator"])}
        known = live.get(row["annotator"])
        warned = bool(known and known.warned_at)
        if row["finding"] == NOT_ASSESSABLE and _asks_for_sides(detection):
            row["finding"] = ASK_SIDES
        row["sup_e"] = plain(as_e(np.array(known.sup_log_e if known else 0.0)))
        row["warned"] = warned
        row["persistent"] = row["annotator"] in lasting
        row.update(timed.get(row["annotator"], {}))
        row["controls"] = beside.get(row["annotator"])
        row["leans"] = leans.get(row["annotator"])
        row["trend"] = trend.get(row["annotator"])
        table.append(row)
    return table


#: Weeks that are kept of everybody.
MOST_WEEKS = 12


def _trend(
    statistics: SufficientStatistics, detection: Detection, q: float
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Of each person the leans by week and the kappa with others; of all, agreement and whose lean has changed."""
    table = AnswerTable.of(statistics)
    together = agreement(table.answers, len(table.items), len(table.annotators))
    found = lean_changes(statistics, q=q, audit=detection.audit)
    trend: dict[str, dict[str, Any]] = {
        str(label): {"weeks": [], "kappa": plain(kappa), "others": int(others)}
        for label, kappa, others in zip(table.annotators, together.kappa, together.n_others, strict=True)
    }
    for row in found.weeks.to_dict("records"):
        week = [plain(row[name]) for name in ("week", "answers", "lean", "low", "high")]
        trend[str(row["annotator"])]["weeks"].append([round(value, 3) for value in week])
    for one in trend.values():
        one["weeks"] = one["weeks"][-MOST_WEEKS:]
    changed = found.annotators[found.annotators["changed"]].to_dict("records")
    return trend, {
        "alpha": plain(together.alpha),
        "units": together.n_units,
        "kappa": plain(together.median_kappa),
        "changed": [{str(name): plain(value) for name, value in row.items()} for row in changed],
        "reasons": list(found.reasons),
    }


def _is_of_interest(row: Mapping[Any, Any]) -> bool:
    """Whether one of the lists, or the interval of the bias, speaks of a lean."""
    return bool(row["exact_list"] or row["lbi_list"] or row["bias_low"] > 0 or row["bias_high"] < 0)


def evidence_in_time(times: Mapping[str, Sequence[tuple[float, float | None, float]]]) -> dict[str, dict[str, Any]]:
    """First and last answer, median lead time and longest run, of each annotator's (time, lead time, outcome)."""
    owner = np.repeat(np.arange(len(times)), [len(own) for own in times.values()])
    answers = np.array([answer for own in times.values() for answer in own], dtype=np.float64).reshape(-1, 3)
    found = evidence.in_time(owner, answers[:, 2], answers[:, 0], answers[:, 1], len(times))
    return {key: {name: column[place] for name, column in found.items()} for place, key in enumerate(times)}


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
        **detection.method,
    }


def _path_record(detection: Detection) -> dict[str, Any]:
    """The path for plotting: at most 200 points of the 1,000 annotators that move most."""
    record = detection.lbi.path
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
    audit = {
        "found": "cannot be told",
        "how": "none",
        "construction": "none",
        "reasons": [reason],
        "remedies": ["Collect answers."],
        "figures": {},
    }
    counted = ("flagged", "persistent", "warned", "assessable", "not_assessable", "order_changes")
    data = {"answers": 0, "annotators": 0, "items": 0, "coins": 0, "ties": 0, "excluded": {}}
    summary = {"data": data, "q": config.q, "decided_by": config.decide_by, **dict.fromkeys(counted, 0)}
    return RunResult(
        seq=current.seq,
        seed=config.options.seed,
        config=config.to_json(),
        versions=versions(),
        audit=audit,
        guarantee=str(NOBODY),
        summary=summary,
        timings={},
        data_hash=data_hash(current.statistics),
        flags=[],
    )


HOW = {
    "own coins": "annotators can be judged by their own coins",
    "shared coins": "annotators can be judged by the coins of the tasks",
    "both orders": "annotators can be judged by pairs shown in both orders",
    "sides fixed": "annotators can be judged with the sides as they stood; early warnings are not given",
    "none": "nobody can be judged yet",
}


@dataclass(frozen=True)
class FirstLook:
    """The audit in words, and the next step."""

    answers: int
    audit: str
    next_step: str
    is_misread: bool = False


def first_look(store: Store, project: Project, progress: Stages, *, page: str) -> FirstLook:
    """Audit the stored answers of a project; `page` is where results will be shown."""
    config = ProjectConfig.model_validate(project.config)
    statistics = StatisticsCache(store).catch_up(project, progress).statistics
    if not len(statistics):
        return FirstLook(0, "no answers yet", f"let people label; results appear at {page}")
    note_left_out(store, project, statistics)
    answers = len(statistics)
    if misread := looks_misread(statistics, config):
        return FirstLook(answers, misread, "then connect again", is_misread=True)
    progress("audit", 0, 1)
    try:
        asked = config.options.construction
        found = audit(AnswerTable.of(statistics).audit_input(), q=config.q, method=asked, sides=config.sides)
    except FdrCoreError as error:
        return FirstLook(answers, str(error), "change the project's settings as the message says")
    said = f"{HOW[found.how]}. {found.reasons[-1] if found.reasons else ''}".strip()
    if found.how != "none":
        return FirstLook(answers, said, f"a run has been asked for; see {page}")
    if found.assessable.any():
        return FirstLook(answers, said, sides_remedy(project))
    return FirstLook(answers, said, f"let people label more; results appear at {page}")
