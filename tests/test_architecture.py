"""The core stays pure, importing does nothing, modules stay readable; tests/test_contracts says who imports whom."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.source_tree import SourceTree

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = SourceTree(ROOT, ("fdr_core", "backend/evenhand"))
CORE = SourceTree(ROOT, ("fdr_core",))
AROUND = SourceTree(ROOT, ("harness", "tests", "benchmarks", "scripts", "examples"))
LONGEST_MODULE = 500


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
        if name not in allowed and not name.startswith("evenhand.commands.")
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
