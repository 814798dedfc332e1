"""Colleagues in Label Studio try to turn an honest person into one who clicks a side; evidence is first submissions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evenhand.app import create_app
from evenhand.domain import Project, Role, Trigger
from evenhand.ingest.events import build_batch, handle_events
from evenhand.label_studio.payloads import read_event
from evenhand.project_config import parse_config
from evenhand.runs.report import report_of_run
from evenhand.server.worker import Runs
from evenhand.settings import Settings
from evenhand.store import Store
from werkzeug.security import generate_password_hash

from fdr_core.findings import SKIPS
from fdr_core.report.document import pseudonymised
from fdr_core.report.page import report_html
from harness.databases import new_store
from harness.label_configs import PAIRWISE
from tests.attacks.cases import basic

Json = dict[str, Any]
VICTIM, COLLEAGUE = 1, 2
PEOPLE, ANSWERS, ITEMS = 12, 90, 25
CREATED = "2026-01-01T00:00:00.000000Z"
PROJECT = {"id": 1, "title": "pairs", "label_config": PAIRWISE, "created_at": CREATED}


class Crowd:
    """Honest people who each saw pairs of their own, and what Label Studio sends about them."""

    def __init__(self, store: Store) -> None:
        self.store, self.minute = store, 0
        rng = np.random.default_rng(11)
        self.scores = scores = rng.normal(0.0, 1.0, ITEMS)
        self.answers: dict[int, Json] = {}
        self.tasks: dict[int, Json] = {}
        for person in range(1, PEOPLE + 1):
            for _ in range(ANSWERS):
                left, right = rng.choice(ITEMS, 2, replace=False)
                prefers_left = rng.random() < 1 / (1 + np.exp(scores[right] - scores[left]))
                self.add(person, f"item {left}", f"item {right}", "left" if prefers_left else "right", by=person)
        self.send([self.created(number) for number in self.answers])

    @property
    def project(self) -> Project:
        return self.store.projects.all()[0]

    def add(self, person: int, left: str, right: str, side: str, *, by: int | None) -> int:
        number = len(self.answers) + 1
        self.tasks[number] = {"id": number, "data": {"text1": left, "text2": right}, "updated_at": self.now()}
        self.answers[number] = {
            "id": number, "task": number, "project": 1, "completed_by": person, "updated_by": by,
            "result": chosen(side), "was_cancelled": False, "ground_truth": False, "lead_time": 3.0,
            "created_at": CREATED, "updated_at": self.now(),
        }  # fmt: skip
        return number

    def now(self) -> str:
        self.minute += 1
        return f"2026-01-{2 + self.minute // 1440:02}T{self.minute // 60 % 24:02}:{self.minute % 60:02}:00.000000Z"

    def created(self, number: int) -> Json:
        return {"action": "ANNOTATION_CREATED", **self._with_task(number)}

    def changed(self, number: int, **values: Any) -> Json:
        self.answers[number] = {**self.answers[number], "updated_at": self.now(), **values}
        return {"action": "ANNOTATION_UPDATED", **self._with_task(number)}

    def _with_task(self, number: int) -> Json:
        return {
            "annotation": self.answers[number],
            "task": self.tasks[self.answers[number]["task"]],
            "project": PROJECT,
        }

    def send(self, bodies: Sequence[Json]) -> None:
        for start in range(0, len(bodies), 200):
            handle_events(self.store, Settings(), [read_event(body) for body in bodies[start : start + 200]])

    def of(self, person: int, side: str) -> list[int]:
        return [key for key, one in self.answers.items() if one["completed_by"] == person and side_of(one) == side]

    def flagged(self) -> list[str]:
        """Run, and return who is on the list or has a lasting flag."""
        config = parse_config({"sides": "random", "lbi": "off"}, base=self.project.config)
        self.store.projects.set_config(self.project.id, config)
        self.store.runs.request(self.project.id, Trigger.MANUAL)
        Runs(self.store, "test", threading.Event()).once()
        run = self.store.runs.latest(self.project.id)
        assert run is not None
        assert run.audit is not None
        assert run.audit["how"] != "none"
        rows = self.store.findings.all(run.id)
        return [str(row["annotator"]) for row in rows if row["flagged"] or row["persistent"]]


def chosen(side: str) -> list[Json]:
    return [{"value": {"selected": side}, "id": "x", "from_name": "pw", "to_name": "pw", "type": "pairwise"}]


def side_of(answer: Json) -> str:
    return str(answer["result"][0]["value"]["selected"])


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    with closing(new_store(tmp_path / "evenhand.db")) as store:
        yield Crowd(store)


def edit(crowd: Crowd) -> None:
    """A colleague turns every right answer into a left one, right after it was submitted."""
    right = crowd.of(VICTIM, "right")
    crowd.send([crowd.changed(number, result=chosen("left"), updated_by=COLLEAGUE) for number in right])


def delete(crowd: Crowd) -> None:
    """A colleague deletes every right answer; the event carries ids only."""
    ids = [{"id": number} for number in crowd.of(VICTIM, "right")]
    crowd.send([{"action": "ANNOTATIONS_DELETED", "annotations": ids, "project": PROJECT}])


def delete_tasks(crowd: Crowd) -> None:
    """A colleague deletes the tasks of every right answer."""
    ids = [{"id": crowd.answers[number]["task"]} for number in crowd.of(VICTIM, "right")]
    crowd.send([{"action": "TASKS_DELETED", "task": ids, "project": PROJECT}])


def write(crowd: Crowd) -> None:
    """A colleague submits left answers in the victim's name."""
    pairs = [f"item {number % ITEMS}" for number in range(81)]
    added = [crowd.add(VICTIM, left, right, "left", by=COLLEAGUE) for left, right in pairwise(pairs)]
    crowd.send([crowd.created(number) for number in added])


def attribute(crowd: Crowd) -> None:
    """A colleague makes the victim the author of other people's left answers."""
    left = [number for person in range(3, PEOPLE + 1) for number in crowd.of(person, "left")]
    crowd.send([crowd.changed(number, completed_by=VICTIM, updated_by=COLLEAGUE) for number in left])


def skip(crowd: Crowd) -> None:
    """A colleague turns every right answer into a skip."""
    right = crowd.of(VICTIM, "right")
    crowd.send([crowd.changed(number, was_cancelled=True, updated_by=COLLEAGUE) for number in right])


def mark(crowd: Crowd) -> None:
    """A colleague marks right answers as ground truth, where the owner left that out."""
    config = parse_config({"count_ground_truth": False}, base=crowd.project.config)
    crowd.store.projects.set_config(crowd.project.id, config)
    right = crowd.of(VICTIM, "right")
    crowd.send([crowd.changed(number, ground_truth=True, updated_by=COLLEAGUE) for number in right])


def swap(crowd: Crowd) -> None:
    """A colleague exchanges the items of the tasks that were answered with right, and the answers with them."""
    crowd.store.projects.finish_pull(crowd.project.id, {}, watermark=None, was_full=True)
    bodies = []
    for number in crowd.of(VICTIM, "right"):
        task = crowd.tasks[crowd.answers[number]["task"]]
        task["data"] = {"text1": task["data"]["text2"], "text2": task["data"]["text1"]}
        task["updated_at"] = crowd.now()
        bodies.append(crowd.changed(number, result=chosen("left"), updated_by=COLLEAGUE))
    crowd.send(bodies)


ATTACKS: dict[Callable[[Crowd], None], str] = {
    edit: "edited, by user 2",
    delete: "removed, by whom is not known",
    delete_tasks: "removed, by whom is not known",
    write: "written in their name, by user 2",
    attribute: "given another author, by user 2",
    skip: "edited, by user 2",
    mark: "marked as ground truth or not, by user 2",
    swap: "edited, by user 2",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_framing_ends_in_no_flag_and_a_problem_that_names_who_is_known(
    crowd: Crowd, attack: Callable[[Crowd], None]
) -> None:
    attack(crowd)
    assert crowd.flagged() == []
    found = {problem.code: problem.message for problem in crowd.store.problems.find(crowd.project.id)}
    assert ATTACKS[attack] in found["answers_revised"]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_framing_does_not_move_anybody_s_p_value(crowd: Crowd, attack: Callable[[Crowd], None]) -> None:
    if attack is mark:
        config = parse_config({"count_ground_truth": False}, base=crowd.project.config)
        crowd.store.projects.set_config(crowd.project.id, config)
    crowd.flagged()
    before = p_values(crowd)
    attack(crowd)
    crowd.flagged()
    assert p_values(crowd) == before


def p_values(crowd: Crowd) -> dict[str, float]:
    run = crowd.store.runs.latest(crowd.project.id)
    assert run is not None
    return {str(row["annotator"]): row["p_value"] for row in crowd.store.findings.all(run.id)}


def test_answers_that_only_events_know_are_evidence_until_a_pull_and_no_longer(crowd: Crowd) -> None:
    """Whoever knows the webhook's secret invents answers of somebody; Label Studio's API never shows them."""
    crowd.flagged()
    before = p_values(crowd)
    pull(crowd)
    pairs = [f"item {number % ITEMS}" for number in range(121)]
    invented = [crowd.add(VICTIM, left, right, "left", by=VICTIM) for left, right in pairwise(pairs)]
    crowd.send([crowd.created(number) for number in invented])
    assert crowd.flagged() == [str(VICTIM)]
    for number in invented:
        del crowd.answers[number]
    pull(crowd)
    assert crowd.flagged() == []
    assert p_values(crowd) == pytest.approx(before)
    found = {problem.code: problem.message for problem in crowd.store.problems.find(crowd.project.id)}
    assert "never shown by Label Studio" in found["answers_revised"]


def test_answers_that_a_pull_has_shown_stay_evidence_when_they_go(crowd: Crowd) -> None:
    crowd.flagged()
    before = p_values(crowd)
    pull(crowd)
    for number in crowd.of(VICTIM, "right"):
        del crowd.answers[number]
    pull(crowd)
    crowd.flagged()
    assert p_values(crowd) == before


def pull(crowd: Crowd) -> None:
    """What a full pull of Label Studio brings."""
    as_of, project = crowd.store.projects.begin_pull(crowd.project.id), crowd.project
    batch = build_batch(crowd.store, project, list(crowd.answers.values()), list(crowd.tasks.values()), as_of=as_of)
    crowd.store.comparisons.apply(project.id, batch)
    crowd.store.comparisons.delete_missing(project.id, set(crowd.answers), as_of=as_of)


def test_one_who_skips_by_side_changes_nobody_else_s_p_value_and_is_found(crowd: Crowd) -> None:
    """A saboteur took the proof from the whole project by 27 skips."""
    crowd.flagged()
    before, how = p_values(crowd), audit(crowd)["how"]
    worse, better = np.array(list(combinations(np.argsort(crowd.scores), 2))[:27]).T
    skips = [
        crowd.add(VICTIM, f"item {left}", f"item {right}", "left", by=VICTIM)
        for left, right in zip(worse, better, strict=True)
    ]
    crowd.send(
        [{**crowd.created(number)} for number in skips if crowd.answers[number].update(was_cancelled=True) is None]
    )
    crowd.flagged()
    after = p_values(crowd)
    assert audit(crowd)["how"] == how
    assert {key: value for key, value in after.items() if key != str(VICTIM)} == pytest.approx(
        {key: value for key, value in before.items() if key != str(VICTIM)}
    )
    run = crowd.store.runs.latest(crowd.project.id)
    assert run is not None
    findings = {str(row["annotator"]): row["finding"] for row in crowd.store.findings.all(run.id)}
    assert findings[str(VICTIM)] == SKIPS
    assert SKIPS not in {finding for who, finding in findings.items() if who != str(VICTIM)}


def audit(crowd: Crowd) -> Any:
    run = crowd.store.runs.latest(crowd.project.id)
    assert run is not None
    return run.audit


def test_own_edit_is_a_fact_and_no_problem_and_the_ranking_follows_it(crowd: Crowd) -> None:
    (number, *_) = crowd.of(VICTIM, "right")
    crowd.send([crowd.changed(number, result=chosen("left"), updated_by=VICTIM)])
    assert crowd.flagged() == []
    history = crowd.store.revisions.of(crowd.project.id)[str(VICTIM)]
    assert (history.edited.right, history.edited_by_others.total, history.by) == (1, 0, (str(VICTIM),)[:0])
    assert crowd.store.problems.find(crowd.project.id) == []
    stored = {row["annotation_id"]: row["outcome"] for row in crowd.store.comparisons.rows(crowd.project.id)}
    assert stored[number] == 1.0  # what ranks items is what stands


def test_update_that_leaves_the_result_as_it_was_is_no_edit(crowd: Crowd) -> None:
    crowd.send([crowd.changed(number, updated_by=COLLEAGUE, lead_time=9.0) for number in crowd.of(VICTIM, "right")])
    assert crowd.store.revisions.of(crowd.project.id) == {}


def test_answer_of_an_import_is_evidence_although_nobody_is_named(crowd: Crowd) -> None:
    bot = 77
    for number in range(60):
        crowd.add(bot, f"item {number % ITEMS}", f"item {(number + 7) % ITEMS}", "left", by=None)
    crowd.send([crowd.created(number) for number in crowd.of(bot, "left")])
    assert crowd.flagged() == [str(bot)]


def test_history_counts_what_was_removed_by_the_side_it_had(crowd: Crowd) -> None:
    right, left = crowd.of(VICTIM, "right"), crowd.of(VICTIM, "left")[:2]
    ids = [{"id": number} for number in (*right, *left)]
    crowd.send([{"action": "ANNOTATIONS_DELETED", "annotations": ids, "project": PROJECT}] * 2)
    removed = crowd.store.revisions.of(crowd.project.id)[str(VICTIM)].removed
    assert (removed.left, removed.right, removed.ties) == (2, len(right), 0)


def test_deletions_and_edits_are_shown_beside_the_flag_by_side(crowd: Crowd) -> None:
    bot = 77
    for number in range(60):
        crowd.add(bot, f"item {number % ITEMS}", f"item {(number + 7) % ITEMS}", "left", by=bot)
    crowd.send([crowd.created(number) for number in crowd.of(bot, "left")])
    left = crowd.of(bot, "left")
    crowd.send([{"action": "ANNOTATIONS_DELETED", "annotations": [{"id": n} for n in left[:7]], "project": PROJECT}])
    crowd.send([crowd.changed(n, result=chosen("right"), updated_by=COLLEAGUE) for n in left[7:10]])
    assert crowd.flagged() == [str(bot)]
    run = crowd.store.runs.latest(crowd.project.id)
    assert run is not None
    told = (
        "7 answers were removed later, 7 of them left; 3 answers were edited later, 3 of them left "
        f"(3 not by the annotator); by user {COLLEAGUE}"
    )
    report = report_of_run(crowd.store, run)
    assert {row["annotator"]: row["later"] for row in report["annotators"] if row["later"]} == {str(bot): told}
    assert told in report_html(report).decode()
    page = create_app(Settings(), crowd.store).test_client().get(f"/ui/projects/{crowd.project.id}/annotator?id={bot}")
    assert told in page.text
    assert {row["later"] for row in pseudonymised(report)["annotators"]} == {None}


def test_settings_changed_since_the_run_before_stand_in_the_report(crowd: Crowd) -> None:
    crowd.flagged()
    config = parse_config({"q": 0.3}, base=crowd.project.config)
    crowd.store.projects.set_config(crowd.project.id, config, by="mallory")
    crowd.flagged()
    run = crowd.store.runs.latest(crowd.project.id)
    assert run is not None
    report = report_of_run(crowd.store, run)
    assert [(line["what"], line["by"]) for line in report["data"]["settings_changed"]] == [("q: 0.1 → 0.3", "mallory")]
    assert "mallory" in report_html(report).decode()
    assert pseudonymised(report)["data"]["settings_changed"] is None
    crowd.flagged()
    later = crowd.store.runs.latest(crowd.project.id)
    assert later is not None
    assert report_of_run(crowd.store, later)["data"]["settings_changed"] == []


def post(crowd: Crowd, role: Role, path: str, **form: str) -> int:
    """Send a form as somebody with this role."""
    store, name = crowd.store, f"the {role}"
    store.users.put(name, generate_password_hash("a long password", "pbkdf2:sha256:1"), role)
    store.users.link(name, "", "", by="a test")
    client = create_app(Settings(), store).test_client()
    with client.session_transaction() as session:
        session["csrf_token"] = "token"
    login = {"name": name, "password": "a long password", "csrf_token": "token"}
    assert client.post("/ui/login", data=login).status_code == 302
    with client.session_transaction() as session:
        token = session["csrf_token"]
    return client.post(path, data={**form, "csrf_token": token}).status_code


def test_owner_withdraws_a_batch_with_a_reason_and_only_owners_take_it_back(crowd: Crowd) -> None:
    store, base = crowd.store, f"/ui/projects/{crowd.project.id}"
    batch = {"annotator": str(VICTIM), "since": "2025-01-01T00:00", "until": "2026-06-01T00:00", "reason": "a test"}
    assert post(crowd, "reviewer", f"{base}/answers/withdraw", **batch) == 403
    assert post(crowd, "owner", f"{base}/answers/withdraw", **{**batch, "reason": " "}) == 400
    assert post(crowd, "owner", f"{base}/answers/withdraw", **{**batch, "until": "2024-01-01T00:00"}) == 400
    assert post(crowd, "owner", f"{base}/answers/withdraw", **{**batch, "since": "soon"}) == 400
    assert store.decisions.withdrawn_answers(crowd.project.id) == {}
    assert post(crowd, "owner", f"{base}/answers/withdraw", **batch) == 302
    assert store.decisions.withdrawn_answers(crowd.project.id) == {str(VICTIM): [(1735689600.0, 1780272000.0)]}
    assert store.runs.latest(crowd.project.id, status="queued") is not None
    line = store.decisions.page(crowd.project.id).rows[0]
    assert (line["author"], line["comment"]) == ("the owner", "a test")
    for page in (f"{base}/decisions", f"{base}/annotator?id={VICTIM}"):
        assert "Answers withdrawn" in seen_by_owner(crowd, page)
    assert post(crowd, "reviewer", f"{base}/decisions/{line['number']}/withdraw") == 403
    assert post(crowd, "owner", f"{base}/decisions/{line['number']}/withdraw") == 302
    assert store.decisions.withdrawn_answers(crowd.project.id) == {}


def seen_by_owner(crowd: Crowd, path: str) -> str:
    sent = basic("the owner", "a long password")
    return create_app(Settings(), crowd.store).test_client().get(path, headers=sent).text


def test_answers_given_again_after_a_deletion_count_once(crowd: Crowd) -> None:
    """Whoever imports tasks anew has other task ids, under which the same answers would be other coins."""
    crowd.flagged()
    before = p_values(crowd)
    mine = [number for number, one in crowd.answers.items() if one["completed_by"] == VICTIM]
    again = []
    for number in mine:
        data = crowd.tasks[crowd.answers[number]["task"]]["data"]
        again.append(crowd.add(VICTIM, data["text1"], data["text2"], side_of(crowd.answers[number]), by=None))
    gone = [{"id": crowd.answers[number]["task"]} for number in mine]
    crowd.send([{"action": "TASKS_DELETED", "task": gone, "project": PROJECT}])
    crowd.send([crowd.created(number) for number in again])
    crowd.flagged()
    assert p_values(crowd) == pytest.approx(before)


def test_withdrawn_batch_is_out_until_it_is_taken_back(crowd: Crowd) -> None:
    store, bot = crowd.store, 77
    for number in range(60):
        crowd.add(bot, f"item {number % ITEMS}", f"item {(number + 7) % ITEMS}", "left", by=bot)
    crowd.send([crowd.created(number) for number in crowd.of(bot, "left")])
    assert crowd.flagged() == [str(bot)]
    ours = crowd.project.id
    line = store.decisions.withdraw_answers(ours, str(bot), since=0.0, until=9e9, author="ana", reason="a test account")
    assert crowd.flagged() == []
    assert json.loads(str(line.detail)) == {"since": 0.0, "until": 9e9}
    store.decisions.withdraw(ours, line.number, author="ana")
    assert crowd.flagged() == [str(bot)]
    assert store.decisions.verify(ours).intact
