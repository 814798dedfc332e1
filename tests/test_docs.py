"""Documented or failing: settings, commands, routes, and what the documents tell people to type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from evenhand.cli import main as program
from evenhand.settings import TABLE, Setting, Settings

from fdr_core import __version__
from fdr_core.findings import FINDINGS
from scripts import settings_table

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
MANUAL = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS if path.name != "CHANGELOG.md")


def commands(group: click.Command, prefix: str = "") -> list[str]:
    """Return every command of the program, sub-commands as `users add`."""
    if not isinstance(group, click.Group):
        return [prefix.strip()]
    context = click.Context(group)
    children = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [name for label, child in children if child for name in commands(child, f"{prefix} {label}")]


def code_blocks(text: str, *languages: str) -> list[str]:
    return [block for language, block in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL) if language in languages]


def typed_lines() -> list[str]:
    """Return what the documents tell people to type: shell blocks, and commands in the text."""
    blocks = [line for block in code_blocks(MANUAL, "sh", "bash") for line in block.splitlines()]
    lines = [*blocks, *re.findall(r"`([^`\n]+)`", MANUAL)]
    return [re.sub(r"^docker compose .*? exec \S+ ", "", line) for line in lines]


@pytest.mark.parametrize("document", settings_table.DOCUMENTS, ids=lambda document: document.name)
def test_table_in_a_document_equals_the_code(document: settings_table.Written) -> None:
    assert document.renewed == document.current, "run .venv/bin/python scripts/settings_table.py"


def test_findings_in_the_manual_are_those_of_the_code() -> None:
    manual = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert [finding for finding in FINDINGS if finding not in manual] == []


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.name)
def test_setting_in_the_table_is_explained(setting: Setting) -> None:
    assert f"`{setting.name}`" in MANUAL
    assert setting.help.endswith(".")


@pytest.mark.parametrize("command", commands(program))
def test_command_of_the_program_is_documented(command: str) -> None:
    assert f"evenhand {command}" in MANUAL


@pytest.mark.parametrize("command", commands(program))
def test_command_of_the_program_explains_itself(command: str) -> None:
    found: click.Command | None = program
    for name in command.split():
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name)
    assert found is not None
    assert found.help or found.short_help


def routes(folder: Path) -> list[str]:
    """Return the paths of the service, parameters written as {name}."""
    from evenhand.app import create_app

    app = create_app(Settings.from_env({"MODEL_DIR": str(folder)}))
    rules = {re.sub(r"<(?:[^:<>]+:)?([^<>]+)>", r"{\1}", rule.rule) for rule in app.url_map.iter_rules()}
    return sorted(rules)


def test_routes_of_the_service_are_all_documented(tmp_path: Path) -> None:
    """Parameters may be called otherwise in the documents: {id} for {project_id}."""
    documented = {re.sub(r"\{[^}]*\}", "{}", path) for path in re.findall(r"(/[\w{}./-]*)", MANUAL)}
    missing = [path for path in routes(tmp_path) if re.sub(r"\{[^}]*\}", "{}", path) not in documented]
    assert missing == []


def test_program_calls_in_documents_name_existing_commands() -> None:
    known = {command.split()[0] for command in commands(program)}
    called = {
        match.group(1)
        for line in typed_lines()
        if (match := re.search(r"(?:^|\s|/)evenhand ([a-z][a-z-]*)", line)) and "docker build" not in line
    }
    assert called
    assert called - known == set()


def test_program_options_in_documents_exist() -> None:
    wrong = []
    for line in typed_lines():
        match = re.search(r"(?:^|\s|/)evenhand ([a-z-]+)((?: [^\s#|&;]+)*)", line)
        command = program.get_command(click.Context(program), match.group(1)) if match else None
        if match is None or command is None or isinstance(command, click.Group):
            continue
        known = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}
        used = set(re.findall(r"--[a-z-]+", match.group(2)))
        wrong += [f"{line}: {option}" for option in used - known - {"--help"}]
    assert wrong == []


def test_make_targets_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = {
        target
        for line in typed_lines()
        if (match := re.match(r"make ((?:[a-z-]+)(?: [a-z-]+)*)", line))
        for target in [match.group(1).split()[0]]
    }
    assert {"run", "demo", "test", "check"} <= called
    assert called - targets == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_document_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    broken = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert broken == []


@pytest.mark.slow
def test_library_example_in_readme_runs(tmp_path: Path) -> None:
    """The eight lines are executed as printed, on a simulated crowd in which two people lean."""
    from harness.small_team import write_small_team

    write_small_team(tmp_path / "comparisons.csv", seed=7)
    (example,) = code_blocks((ROOT / "README.md").read_text(encoding="utf-8"), "python")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "leans-0" in done.stdout
    assert "leans-1" in done.stdout


def test_changelog_has_unreleased_changes_above_the_dated_release_of_this_version() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
    assert headings[1].startswith(f"[{__version__}] - ")


def test_changelog_sections_name_each_kind_of_change_once() -> None:
    for section in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        kinds = re.findall(r"^### (.+)$", section, re.MULTILINE)
        assert kinds == sorted(set(kinds)), section.splitlines()[0]


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def named_file(name: str) -> Path | None:
    """Return the file or folder that a path in the document means."""
    path = ROOT / name
    return next((found for found in (path, path.with_name(path.name + ".py")) if found.exists()), None)


def test_architecture_paths_exist() -> None:
    top = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")))
    named = set(re.findall(rf"\b((?:{top})/[\w./-]*\w)", ARCHITECTURE))
    assert len(named) > 60
    assert sorted(name for name in named if named_file(name) is None) == []


def test_architecture_names_stand_in_the_files_it_says() -> None:
    said = re.findall(r"`(\w+)`(?:,? (?:or|and) `(\w+)`)?\)? (?:in|of)\s`([\w./-]+)`", ARCHITECTURE)
    assert len(said) > 20
    missing = [
        f"{name} in {place}"
        for *names, place in said
        for name in filter(None, names)
        if not (path := named_file(place)) or name not in path.read_text(encoding="utf-8")
    ]
    assert missing == []


def test_architecture_tells_every_package_of_the_product() -> None:
    packages = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("*/*/__init__.py")}
    product = {name for name in packages if name.startswith(("backend/", "fdr_core/"))}
    assert {name for name in product if name not in ARCHITECTURE} == set()
