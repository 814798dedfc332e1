"""One crowd in several wordings: read alike and flagged alike by every command and by the service."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from evenhand.domain import Project, ProjectRef, Trigger
from evenhand.ingest.events import handle_event
from evenhand.label_studio.payloads import read_event
from evenhand.projects.reading import change_config
from evenhand.server.worker import Runs
from evenhand.settings import Settings
from evenhand.store import Store

from fdr_core.commands.analyze import analyze
from fdr_core.commands.doctor import doctor
from fdr_core.commands.export_preferences import export_preferences
from fdr_core.commands.gate import gate

WORDINGS: dict[str, tuple[str, ...]] = {
    "left/right/tie": ("left", "tie", "right"),
    "A/B/tie": ("A", "tie", "B"),
    "sentences": ("Response A is better", "About the same", "Response B is better"),
    "German": ("links", "unentschieden", "rechts"),
    "negative": ("B is worse", "Neither", "A is worse"),
}
SETTINGS = Settings(label_studio_url="http://ls")
LEANERS = {"4", "9"}
OPTIONS = ("--lbi", "off", "--sides", "random")


def config_of(words: tuple[str, ...]) -> str:
    choices = "".join(f'<Choice value="{word}"/>' for word in words)
    return (
        f'<View><Text name="one" value="$text_a"/><Text name="two" value="$text_b"/>'
        f'<Choices name="pref" toName="one">{choices}</Choices></View>'
    )


def crowd(*wordings: tuple[str, ...], seed: int = 8) -> list[dict[str, Any]]:
    """An export of 1,200 answers by twelve people on 240 tasks with sides by chance; two lean to the left by .6."""
    rng = np.random.default_rng(seed)
    tasks: list[dict[str, Any]] = []
    number = 0
    for task in range(1, 241):
        one, two = rng.choice(20, size=2, replace=False)
        annotations = []
        for person in rng.choice(np.arange(1, 13), size=5, replace=False):
            clicks = str(person) in LEANERS and rng.random() < 0.6
            wins = rng.random() < 1 / (1 + np.exp(-0.3 * (one - two)))
            outcome = 1 if clicks else 0 if rng.random() < 0.05 else 1 if wins else -1
            words = wordings[number % len(wordings)]
            number += 1
            result = {
                "from_name": "pref",
                "to_name": "one",
                "type": "choices",
                "value": {"choices": [words[1 - outcome]]},
            }
            at = f"2026-03-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
            annotation = {"id": number, "completed_by": int(person), "result": [result], "task": task}
            annotations.append({**annotation, "created_at": at, "updated_at": at})
        data = {"text_a": f"item {one}", "text_b": f"item {two}"}
        tasks.append({"id": task, "data": data, "annotations": annotations})
    return tasks


def run(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


def written(path: Path, tasks: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def of_service(store: Store, tasks: list[dict[str, Any]], label_config: str) -> dict[str, dict[str, Any]]:
    """What a run of the service says of each annotator after all answers came as events."""
    project = store.projects.register("http://ls", ProjectRef(4, 1_794_803_224), label_config=label_config)
    project = change_config(store, project, {"sides": "random", "lbi": "off"}, by="test")
    send(store, project, tasks)
    made = store.runs.request(project.id, Trigger.MANUAL)
    assert Runs(store, "me").once()
    assert store.runs.get(made.id).status == "done"
    return {row["annotator"]: row for row in store.findings.all(made.id)}


def send(store: Store, project: Project, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    described = {"id": project.ls_project_id, "created_at": "2026-11-16T04:27:04Z"}
    annotations = [annotation for task in tasks for annotation in task["annotations"]]
    body = {"action": "ANNOTATIONS_CREATED", "project": described, "annotation": annotations, "task": tasks}
    return handle_event(store, SETTINGS, read_event(body))


FIGURES = ("comparisons", "left", "right", "ties", "flagged", "p_value")


@pytest.mark.parametrize("wording", [*WORDINGS, "mixed"])
def test_crowd_is_read_and_flagged_alike_whatever_its_words(tmp_path: Path, sqlite_store: Store, wording: str) -> None:
    words = list(WORDINGS.values())[:3] if wording == "mixed" else [WORDINGS[wording]]
    tasks = crowd(*words)
    path = written(tmp_path / "export.json", tasks)
    report = json.loads(run(analyze, path, "--json", *OPTIONS).stdout)
    rows = {str(row["annotator"]): row for row in report["annotators"]}
    assert sum(row["comparisons"] for row in rows.values()) == report["data"]["answers"] == 1200
    assert {name for name, row in rows.items() if row["flagged"]} == LEANERS
    served = of_service(sqlite_store, tasks, config_of(words[0]))
    for name, row in rows.items():
        assert [served[name][key] for key in FIGURES] == pytest.approx([row[key] for key in FIGURES])


def test_every_command_reads_the_crowd_worded_a_b_tie(tmp_path: Path) -> None:
    path = written(tmp_path / "export.json", crowd(WORDINGS["A/B/tie"]))
    assert "answers: 1,200; annotators: 12" in run(doctor, path).stdout
    judged = run(gate, path)
    assert judged.exit_code in (0, 1, 3)
    assert "| 12 |" in judged.stdout
    pairs = run(export_preferences, path, "--sides", "random")
    assert pairs.exit_code == 0
    assert "2 annotators flagged" in pairs.stdout


def test_words_that_nobody_understands_are_named_counted_and_mapped_by_the_option(tmp_path: Path) -> None:
    path = written(tmp_path / "export.json", crowd(("Ez jobb", "mindegy", "Az jobb")))
    for command in (analyze, doctor, gate, export_preferences):
        refused = run(command, path)
        assert refused.exit_code == 2
        assert re.search(r"--control pref --answers '[^']*\b(Ez|Az) jobb=left", refused.stderr)
    mapped = run(analyze, path, "--json", *OPTIONS, "--answers", "Ez jobb=left,Az jobb=right,mindegy=tie")
    assert {str(row["annotator"]) for row in json.loads(mapped.stdout)["annotators"] if row["flagged"]} == LEANERS


def test_some_unknown_words_are_an_error_and_a_few_are_counted(tmp_path: Path) -> None:
    tasks = crowd(WORDINGS["A/B/tie"])
    everything = [annotation for task in tasks for annotation in task["annotations"]]
    for annotation in everything[:100]:
        annotation["result"][0]["value"]["choices"] = ["Meh"]
    refused = run(analyze, written(tmp_path / "many.json", tasks), "--json")
    assert refused.exit_code == 2
    assert "100 of 1,200 answers to 'pref' could not be read ('Meh' 100)" in refused.stderr
    assert "--answers 'Meh=tie'" in refused.stderr
    for annotation in everything[50:100]:
        annotation["result"][0]["value"]["choices"] = ["A"]
    few = run(analyze, written(tmp_path / "few.json", tasks), "--json", *OPTIONS)
    assert few.exit_code == 0
    assert "Left out: 50 not understood: 'Meh'" in few.stderr
    assert json.loads(few.stdout)["data"]["excluded"] == {"not understood: 'Meh'": 50}


def test_few_unknown_words_of_one_side_are_an_error(tmp_path: Path) -> None:
    tasks = crowd(WORDINGS["A/B/tie"])
    for annotation in [annotation for task in tasks for annotation in task["annotations"]][:12]:
        annotation["result"][0]["value"]["choices"] = ["B is not worse"]
    refused = run(analyze, written(tmp_path / "export.json", tasks), "--json")
    assert refused.exit_code == 2
    assert "12 answers to 'pref' that all name the right could not be read" in refused.stderr


def test_export_with_two_controls_is_refused_until_one_is_named(tmp_path: Path) -> None:
    tasks = crowd(WORDINGS["A/B/tie"])
    for task in tasks[:80]:
        for annotation in task["annotations"]:
            annotation["result"][0]["from_name"] = "old"
    path = written(tmp_path / "export.json", tasks)
    refused = run(analyze, path, "--json")
    assert refused.exit_code == 2
    assert "old (choices, 400 answers), pref (choices, 800 answers)" in refused.stderr
    one = run(analyze, path, "--json", *OPTIONS, "--control", "pref")
    assert json.loads(one.stdout)["data"]["excluded"] == {"other controls": 400}
    assert "Left out: 400 answers to other controls only" in one.stderr
    both = run(analyze, path, "--json", *OPTIONS, "--control", "pref|old")
    assert json.loads(both.stdout)["data"]["answers"] == 1200


def test_label_config_makes_an_export_read_as_the_service_reads_the_project(tmp_path: Path) -> None:
    words = ("A is much better", "A is slightly better", "B is slightly better", "B is much better")
    tasks = crowd((words[0], words[1], words[3]))  # nobody says "B is slightly better"
    (tmp_path / "config.xml").write_text(config_of(words), encoding="utf-8")
    path = written(tmp_path / "export.json", tasks)
    report = json.loads(run(analyze, path, "--json", *OPTIONS, "--label-config", tmp_path / "config.xml").stdout)
    assert report["data"]["answers"] == 1200
    assert report["data"]["ties"] == 0


def test_answers_lost_to_unknown_words_are_a_problem_in_the_service_and_no_refused_event(store: Store) -> None:
    label_config = config_of(WORDINGS["A/B/tie"])
    project = store.projects.register("http://ls", ProjectRef(4, 1_794_803_224), label_config=label_config)
    tasks = crowd(WORDINGS["A/B/tie"])[:4]
    tasks[0]["annotations"][0]["result"][0]["value"]["choices"] = ["Meh"]
    answer = send(store, project, tasks)
    assert (answer["annotations"], answer["unreadable"]) == (20, 1)
    (problem,) = store.problems.find(project.id)
    assert problem.code == "unreadable_answers"
    assert "'Meh'" in problem.message
    assert "--answers 'Meh=tie'" in problem.message
