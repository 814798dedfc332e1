"""The demo: its crowd is as described, and `make demo` finds the people who lean."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fdr_core import Comparisons, KnockoffLBI, detect
from harness.demo_crowd import Crowd
from scripts.demo import MARK, emptied, port_or_free

ROOT = Path(__file__).resolve().parent.parent


def comparisons(crowd: Crowd, n_tasks: int) -> Comparisons:
    rows = [
        (answer.annotator, task.left, task.right, 1.0 if answer.side == "left" else -1.0, number)
        for number, task in enumerate(crowd.tasks(n_tasks, 12))
        for answer in task.answers
    ]
    annotator, left, right, outcome, task_number = (np.array(column) for column in zip(*rows, strict=True))
    return Comparisons.from_arrays(annotator, left, right, outcome, task=task_number)


def test_crowd_same_seed_gives_the_same_people_and_answers() -> None:
    first, second = Crowd.assemble(3), Crowd.assemble(3)
    assert first == second
    assert list(first.tasks(20, 12)) == list(second.tasks(20, 12))
    assert Crowd.assemble(4).sides != first.sides


def test_crowd_answers_are_spread_evenly_and_nobody_answers_twice() -> None:
    tasks = list(Crowd.assemble(0).tasks(200, 12))
    counts = Counter(answer.annotator for task in tasks for answer in task.answers)
    assert len(counts) == 40
    assert set(counts.values()) == {60}
    assert all(len({answer.annotator for answer in task.answers}) == 12 for task in tasks)


def test_crowd_of_the_demo_is_found_by_the_library() -> None:
    crowd = Crowd.assemble(0)
    found = {
        int(label) for label in detect(comparisons(crowd, 200), q=0.1, sides="random", lbi=KnockoffLBI(seed=0)).flagged
    }
    assert len(found & set(crowd.sides)) >= 5
    assert len(found - set(crowd.sides)) <= 1


def test_crowd_on_unique_prompts_is_found_once_the_owner_states_that_sides_were_shuffled() -> None:
    crowd = Crowd.assemble(0)
    tasks = list(crowd.unique_tasks(200, 12))
    assert len({text for task in tasks for text in task.data().values()}) == 400
    rows = [
        (answer.annotator, task.left, task.right, 1.0 if answer.side == "left" else -1.0, number)
        for number, task in enumerate(tasks)
        for answer in task.answers
    ]
    annotator, left, right, outcome, task_number = (np.array(column) for column in zip(*rows, strict=True))
    data = Comparisons.from_arrays(annotator, left, right, outcome, task=task_number)
    assert detect(data, q=0.1, lbi=None).flagged == []
    found = {int(label) for label in detect(data, q=0.1, sides="random", lbi=None).flagged}
    assert len(found & set(crowd.sides)) >= 5
    assert len(found - set(crowd.sides)) <= 1


def test_demo_port_that_was_asked_for_and_is_taken_is_refused() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(SystemExit, match=f"port {taken} is taken"):
            port_or_free(9090, taken)


def test_demo_folder_with_foreign_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(SystemExit, match="no demo made"):
        emptied(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_demo_folder_of_an_earlier_demo_is_emptied(tmp_path: Path) -> None:
    folder = emptied(tmp_path / "demo")
    (folder / "evenhand.log").touch()
    assert [path.name for path in emptied(folder).iterdir()] == [MARK]


@pytest.mark.labelstudio
@pytest.mark.slow
def test_demo_from_start_to_ctrl_c_finds_the_biased_and_leaves_nothing_running(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as sink:
        command = [sys.executable, "scripts/demo.py", "--pause", "3", "--folder", str(tmp_path / "demo")]
        process = subprocess.Popen(command, cwd=ROOT, stdout=sink, stderr=sink, start_new_session=True)
    try:
        wait_for("Ctrl-C ends both", log, process)
        text = log.read_text()
        ports = [int(port) for port in re.findall(r"(?:Pages|Label Studio): +http://127\.0\.0\.1:(\d+)/", text)]
        assert len(ports) == 2, text
        assert all(is_open(port) for port in ports)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0, log.read_text()
        assert not any(is_open(port) for port in ports)
    finally:
        process.terminate()  # it ends what it started, so it must not be killed outright
        process.wait(timeout=60)
    found = re.findall(r"(captions|unique prompts): +(\d+) of 6 biased annotators found, (\d+) of \d+ flags", text)
    assert [design for design, _, _ in found] == ["captions", "unique prompts"], text
    assert all(int(right) >= 5 and int(wrong) <= 1 for _, right, wrong in found), text


def wait_for(words: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + 600
    while words not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < give_up, log.read_text()
        time.sleep(0.5)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
