"""The manners of the command line: groups, examples, JSON, exit codes, places asked for before the work."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from evenhand.cli import COMMANDS, EXIT_CODES, GROUPS, INTERRUPTED, UNREAD
from evenhand.cli import main as program

from fdr_core.judges.gate_report import EXIT_CODES as OF_GATE
from scripts.settings_table import found, paths, said

EVERY = [path for name in COMMANDS for path in paths(name)]


def test_groups_hold_every_command_once() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize("path", ["", "users", "annotator", *EVERY])
def test_help_has_two_examples_that_parse(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = found(path) if path else program
    _, examples = said(command)
    assert len(examples) == 2
    assert all(example in CliRunner().invoke(program, [*path.split(), "--help"]).output for example in examples)
    for example in examples:
        words = shlex.split(example.partition(" < ")[0])
        assert words[: 1 + len(path.split())] == ["evenhand", *path.split()]
        name = next(name for name in EVERY if words[1 : 1 + len(name.split())] == name.split())
        chosen = found(name)
        with chosen.make_context(name, words[1 + len(name.split()) :], parent=click.Context(program)) as context:
            assert context.params


def test_exit_codes_of_the_gate_and_of_signals_are_in_the_table() -> None:
    assert {*OF_GATE.values(), INTERRUPTED, UNREAD} <= set(EXIT_CODES)


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(program, ["simulate", "crowd.csv", "--annotators", "6", "--biased", "1"]).exit_code == 0
    return tmp_path / "crowd.csv"


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        ("doctor crowd.csv", {"format", "columns", "can_judge", "cannot"}),
        ("gate crowd.csv --judge 0", {"outcome", "judges"}),
        ("analyze crowd.csv --lbi off", {"annotators", "ranking", "guarantee"}),
        ("settings", {"PORT", "EVENHAND_WEBHOOK_SECRET"}),
    ],
)
def test_json_is_the_only_thing_on_standard_output(crowd: Path, arguments: str, keys: set[str]) -> None:
    done = CliRunner(env={"EVENHAND_WEBHOOK_SECRET": "s3cret-of-the-test"}).invoke(
        program, [*arguments.split(), "--json"]
    )
    assert keys <= set(json.loads(done.stdout))
    assert "s3cret" not in done.output


@pytest.mark.parametrize(
    "arguments",
    [
        "analyze absent.csv --out no/such/report",
        "gate absent.csv --markdown no/such/summary.md",
        "export-preferences absent.csv --out no/such/pairs.jsonl",
        "prepare absent.csv --out no/such/tasks",
        "simulate no/such/crowd.csv",
    ],
)
def test_place_that_cannot_be_written_is_refused_before_anything_is_read(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(program, arguments.split())
    assert done.exit_code == 2
    assert "the folder no/such does not exist; make it first, or name another place" in done.output
    assert "absent" not in done.output


def test_reader_that_stops_reading_gets_no_error(crowd: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "evenhand.cli", "doctor", "crowd.csv"]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(write)
    assert done.returncode == UNREAD
    assert done.stderr == ""
