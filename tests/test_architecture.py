"""Import rules: the core stays pure, layers point inward, importing does nothing, modules stay readable."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.layers import LAYERS, layer_of, violations
from tests.source_tree import SourceTree, imports, is_within

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = SourceTree(ROOT, ("fdr_core", "backend/evenhand"))
CORE = SourceTree(ROOT, ("fdr_core",))
AROUND = SourceTree(ROOT, ("harness", "tests", "benchmarks", "scripts", "examples"))
LONGEST_MODULE = 450

# Which of the packages around the product each may import. A test may import what it tests.
AROUND_USES = {
    "harness": {"harness"},
    "benchmarks": {"benchmarks", "harness"},
    "scripts": {"scripts", "harness"},
    "examples": set[str](),
    "tests": {"tests", "harness", "scripts"},
    "tests.test_benchmarks": {"tests", "harness", "benchmarks"},
    "tests.test_results": {"tests", "harness", "benchmarks"},
    "tests.core.test_preferences": {"tests", "harness", "benchmarks"},
    "tests.core.test_record": {"tests", "harness", "examples"},
}


def test_layers_of_the_product_are_kept() -> None:
    assert violations(PRODUCT) == []


def test_layers_named_in_the_rules_exist() -> None:
    names = {layer.name for layer in LAYERS}
    assert {used for layer in LAYERS for used in layer.uses} <= names
    excepted = {module for layer in LAYERS for module in layer.exceptions}
    assert {module for module in excepted if module not in PRODUCT.files} == set()


def made(root: Path, sources: dict[str, str]) -> SourceTree:
    """A tree with the given files, named without their suffix."""
    for name, source in sources.items():
        path = (root / name).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return SourceTree(root, ("fdr_core", "backend/evenhand"))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("backend/evenhand/ingest/events", "from flask import request\n"),
        ("backend/evenhand/runs/brand_new", "def f():\n    import flask\n"),
        ("backend/evenhand/publish/deep/inside", "from evenhand.web import auth\n"),
        ("fdr_core/report/words", "import click\n"),
        ("backend/evenhand/domain", "from sqlalchemy import Table\n"),
        ("backend/evenhand/label_studio/payloads", "from ..store import Store\n"),
        ("backend/evenhand/store/runs", "from evenhand.runs import schedule\n"),
        ("backend/evenhand/web/api_v1", "import sqlalchemy.orm\n"),
        ("backend/evenhand/commands/serve", "from evenhand.app import create_app\n"),
        ("fdr_core/brand_new", "import pandas as pd\n"),
        ("fdr_core/paper/paths/lbi", "import os\n"),
        ("fdr_core/paper/slack", "import cvxpy\n"),
        ("fdr_core/detection", "from evenhand import domain\n"),
        ("backend/evenhand/runs/run", "from harness import world\n"),
    ],
)
def test_layers_when_a_module_imports_what_it_must_not_are_broken(tmp_path: Path, module: str, source: str) -> None:
    others = {
        "backend/evenhand/app": "",
        "backend/evenhand/domain": "",
        "backend/evenhand/store/runs": "",
        "backend/evenhand/web/auth": "",
    }
    found = violations(made(tmp_path, {**others, "backend/evenhand/runs/schedule": "", module: source}))
    assert len(found) == 1
    assert found[0].startswith(module.removeprefix("backend/").replace("/", ".") + ":")


def test_layers_when_a_module_stands_flat_in_the_backend_ask_where_it_belongs(tmp_path: Path) -> None:
    assert violations(made(tmp_path, {"backend/evenhand/helpers": ""})) == [
        "evenhand.helpers stands in no layer; name its package in tests.layers"
    ]


def test_layers_when_imports_point_inward_are_kept(tmp_path: Path) -> None:
    sources = {
        "backend/evenhand/ingest/events": "from evenhand.store import S\nfrom evenhand.domain import Task\n",
        "backend/evenhand/store/__init__": "from sqlalchemy import Table\nimport sqlite3\n",
        "backend/evenhand/domain": "from fdr_core.inputs.item_keys import item_key\n",
        "fdr_core/report/page": "from jinja2 import Environment\n",
        "backend/evenhand/web/api_v1": "from flask import Flask\nfrom evenhand.ingest import events\n",
        "fdr_core/paper/slack": "import numpy as np\ndef solve():\n    import cvxpy\n",
        "fdr_core/inputs/item_keys": "import pandas\n",
    }
    assert violations(made(tmp_path, sources)) == []


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("evenhand.projects.reading", "use cases"),
        ("evenhand.project_config", "domain and payloads"),
        ("fdr_core", "core edges"),
        ("fdr_core.randomisation.coins", "numerics"),
        ("fdr_core.inputs.arena", "tables"),
    ],
)
def test_layer_of_a_module_is_that_of_the_longest_name_that_fits(module: str, name: str) -> None:
    layer = layer_of(module)
    assert layer is not None
    assert layer.name == name


def test_packages_around_the_product_import_only_what_they_may() -> None:
    wrong = [
        str(found)
        for found in AROUND.imports
        if (target := AROUND.module_of(found.target)) and target.split(".")[0] not in _around_uses(found.module)
    ]
    assert wrong == []


def _around_uses(module: str) -> set[str]:
    return AROUND_USES[max((name for name in AROUND_USES if is_within(module, name)), key=len)]


def test_core_global_randomness_is_never_used() -> None:
    """Randomness arrives as a generator: numpy's global state is never touched."""
    allowed = {"Generator", "default_rng", "SeedSequence", "Philox", "PCG64", "BitGenerator"}
    wrong = [
        f"{name}:{node.lineno} uses {ast.unparse(node)}"
        for name, tree in CORE.modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value) in {"np.random", "numpy.random"}
        and node.attr not in allowed
    ]
    assert wrong == []


def test_core_output_is_returned_and_never_printed() -> None:
    wrong = [
        f"{name}:{node.lineno}"
        for name, tree in CORE.modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"print", "input", "exit"}
    ]
    assert wrong == []


def test_environment_is_read_only_by_settings_and_entry_points() -> None:
    # gunicorn loads its settings as a module; serve hands its environment on; Prometheus has a variable of its own.
    allowed = {"evenhand.settings", "evenhand._wsgi", "evenhand.cli", "evenhand.sdk_model"}
    allowed |= {"evenhand.server.gunicorn_settings", "evenhand.server.supervisor", "evenhand.web.metrics"}
    wrong = [
        f"{name}:{node.lineno}"
        for name, tree in PRODUCT.modules.items()
        if name not in allowed and not is_within(name, "evenhand.commands")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv"}
    ]
    assert wrong == []


def test_modules_at_import_only_define() -> None:
    """Module level holds definitions, constants and calls that only build values; never a bare call."""
    allowed_files = {"evenhand._wsgi", "evenhand.store.migrations.env"}
    wrong = [
        f"{name}:{node.lineno} runs {ast.unparse(node)[:60]}"
        for name, tree in PRODUCT.modules.items()
        if name not in allowed_files
        for node in tree.body
        if isinstance(node, ast.Expr | ast.With | ast.For | ast.While)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not _registers_on_own_object(node)
    ]
    assert wrong == []


def _registers_on_own_object(node: ast.stmt) -> bool:
    """Attaching commands to the own click group, or routes to the own description, changes nothing outside."""
    if isinstance(node, ast.For):
        return all(_registers_on_own_object(part) for part in node.body)
    call = node.value if isinstance(node, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in {"add_command", "declare"}
    )


@pytest.mark.parametrize("tree", [PRODUCT, AROUND], ids=["product", "around"])
def test_modules_size_stays_readable(tree: SourceTree) -> None:
    """Around 400 lines is the moment to look for a seam."""
    long = [
        f"{path.relative_to(ROOT)} has {lines} lines, more than {LONGEST_MODULE}"
        for path in tree.files.values()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_MODULE
    ]
    assert long == []


@pytest.mark.parametrize(
    ("unexplained", "but_for"),
    [
        (r"# type: ignore(?!\[[\w, -]+\]  # \S)", set[str]()),
        # The function around these three says why numpy's global state is touched.
        (r"# noqa(?!: [A-Z]+\d+(?:, [A-Z]+\d+)*\s+\S)", {"benchmarks/results/peers.py"}),
    ],
    ids=["types", "lint"],
)
def test_what_a_check_is_told_to_ignore_is_named_and_explained(unexplained: str, but_for: set[str]) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number} ignores a finding without saying why"
        for path in [*PRODUCT.files.values(), *AROUND.files.values()]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(unexplained, line) and path != Path(__file__) and str(path.relative_to(ROOT)) not in but_for
    ]
    assert wrong == []


def test_import_walker_relative_lazy_and_typing_imports_are_told_apart() -> None:
    source = (
        "from . import a\nfrom ..x import b\nimport json\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas\ndef f():\n    import cvxpy\n"
    )
    found = imports("pkg.sub.mod", ast.parse(source), set())
    assert [(item.target, item.at_import) for item in found] == [
        ("pkg.sub.a", True),
        ("pkg.x.b", True),
        ("json", True),
        ("typing.TYPE_CHECKING", True),
        ("pandas", False),
        ("cvxpy", False),
    ]
