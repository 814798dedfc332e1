"""Which way imports point: the contracts in .importlinter are kept, and each of them can be broken."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTRACTS = ROOT / ".importlinter"
PACKAGES = ("fdr_core", "backend/evenhand", "benchmarks", "harness", "tests")
#: For each contract an import that it forbids, and the module that gets it.
FORBIDDEN = {
    "circles": ("fdr_core/paper/slack", "from fdr_core.paper import knockoff_lbi"),
    "library": ("fdr_core/statistics", "from fdr_core import audit"),
    "service": ("backend/evenhand/label_studio/webhooks", "def f():\n    from evenhand.publish import plan"),
    "alone": ("fdr_core/report/words", "from evenhand.domain import Trigger"),
    "arrays": ("fdr_core/consensus/score_scale", "import time"),
    "edges": ("fdr_core/inputs/rows", "import click"),
    "sql": ("backend/evenhand/ingest/reviews", "import sqlalchemy.orm"),
    "http": ("backend/evenhand/runs/schedule", "def f():\n    import flask"),
    "around": ("backend/evenhand/runs/run", "from harness import world"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the packages of a folder."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'backend'}", "COLUMNS": "300"}
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--config", str(CONTRACTS)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_contracts_are_kept() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


def test_contract_is_broken_by_an_import_that_it_forbids(tmp_path: Path) -> None:
    names = {
        section.rpartition(":")[2]: parsed["name"]
        for section, parsed in _sections().items()
        if section.startswith("importlinter:contract:")
    }
    assert names.keys() == FORBIDDEN.keys()
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=lambda _, files: [f for f in files if _is_data(f)])
    for module, line in FORBIDDEN.values():
        with (tmp_path / module).with_suffix(".py").open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    done = lint(tmp_path)
    assert done.returncode == 1
    assert [name for name in names.values() if f"{name} BROKEN" not in done.stdout] == [], done.stdout + done.stderr


def _sections() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser()
    parsed.read(CONTRACTS, encoding="utf-8")
    return parsed


def _is_data(name: str) -> bool:
    return "." in name and not name.endswith(".py")
