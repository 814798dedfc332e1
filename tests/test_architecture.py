"""Import rules: the core stays pure, layers point inward, importing does nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CORE_ALWAYS = {"numpy", "scipy", "fdr_core"}
# The numerics know arrays only; the modules around them, the core's edges, may speak of frames and files.
CORE_NUMERICS = {
    "fdr_core.audit",
    "fdr_core.design",
    "fdr_core.knockoffs",
    "fdr_core.live",
    "fdr_core.paths",
    "fdr_core.selection",
    "fdr_core.statistics",
}
FRAMES = {"pandas", "pyarrow"}
# Imported only inside the function that needs it, so that everybody else never loads it.
CORE_LAZY = {"cvxpy", "ibis", "matplotlib", "pyspark"}
CORE_FORBIDDEN_STDLIB = {"os", "logging", "random", "time", "datetime", "socket", "sqlite3", "subprocess", "urllib"}
WEB = {"flask", "werkzeug", "jinja2", "backend.web", "backend.app"}
DATABASE = {"sqlalchemy", "alembic", "psycopg", "sqlite3"}
PURE_BACKEND = ("backend.domain", "backend.protocol", "backend.label_config", "backend.config", "backend.errors")
USE_CASES = ("backend.ingest", "backend.reconcile", "backend.analyse", "backend.publish", "backend.report")


@dataclass(frozen=True)
class Import:
    """One import statement's target, and whether it runs when the module is imported."""

    module: str
    target: str
    line: int
    at_import: bool

    def is_of(self, names: set[str]) -> bool:
        return any(self.target == name or self.target.startswith(name + ".") for name in names)

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(package: str) -> dict[str, ast.Module]:
    files = (path for path in sorted((ROOT / package).rglob("*.py")))
    return {module_name(path): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in files}


def _nodes(node: ast.AST, at_import: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Walk a tree, telling what runs at import; `if TYPE_CHECKING` never does."""
    for child in ast.iter_child_nodes(node):
        deferred = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        yield child, at_import
        yield from _nodes(child, at_import and not deferred and not typing_only)


def imports(name: str, tree: ast.Module, package_files: set[str]) -> list[Import]:
    found = []
    for node, at_import in _nodes(tree):
        if isinstance(node, ast.Import):
            found += [Import(name, alias.name, node.lineno, at_import) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(name, node, package_files)
            found += [
                Import(name, f"{base}.{alias.name}" if base else alias.name, node.lineno, at_import)
                for alias in node.names
            ]
    return found


def _absolute(name: str, node: ast.ImportFrom, package_files: set[str]) -> str:
    if node.level == 0:
        return node.module or ""
    parents = name.split(".") if name in package_files else name.split(".")[:-1]
    kept = parents[: len(parents) - (node.level - 1)]
    return ".".join([*kept, node.module] if node.module else kept)


def package_imports(package: str) -> list[Import]:
    trees = modules(package)
    packages = {module_name(path) for path in (ROOT / package).rglob("__init__.py")}
    return [found for name, tree in trees.items() for found in imports(name, tree, packages)]


def test_core_imports_hold_numerics_and_frames_only_at_the_edges() -> None:
    wrong = []
    for found in package_imports("fdr_core"):
        top = found.target.split(".")[0]
        if top in CORE_ALWAYS or top == "__future__" or (top in FRAMES and not is_numerics(found.module)):
            continue
        if is_stdlib(top) and top not in CORE_FORBIDDEN_STDLIB:
            continue
        if top in CORE_LAZY and not found.at_import:
            continue
        wrong.append(str(found))
    assert wrong == []


def is_stdlib(top: str) -> bool:
    return top in sys.stdlib_module_names


def is_numerics(module: str) -> bool:
    return any(module == name or module.startswith(name + ".") for name in CORE_NUMERICS)


def test_core_global_randomness_is_never_used() -> None:
    """Randomness arrives as a generator: numpy's global state is never touched."""
    allowed = {"Generator", "default_rng", "SeedSequence", "Philox", "PCG64", "BitGenerator"}
    wrong = [
        f"{name}:{node.lineno} uses {ast.unparse(node)}"
        for name, tree in modules("fdr_core").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value) in {"np.random", "numpy.random"}
        and node.attr not in allowed
    ]
    assert wrong == []


def test_core_output_is_returned_and_never_printed() -> None:
    wrong = [
        f"{name}:{node.lineno}"
        for name, tree in modules("fdr_core").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"print", "input", "exit"}
    ]
    assert wrong == []


def test_pure_backend_modules_import_neither_web_nor_database() -> None:
    wrong = [
        str(found)
        for found in package_imports("backend")
        if found.module in PURE_BACKEND and found.is_of(WEB | DATABASE)
    ]
    assert wrong == []


def test_use_cases_import_no_web() -> None:
    wrong = [str(found) for found in package_imports("backend") if found.module in USE_CASES and found.is_of(WEB)]
    assert wrong == []


def test_web_reads_the_database_only_through_the_store() -> None:
    wrong = [
        str(found)
        for found in package_imports("backend")
        if found.module.startswith("backend.web") and found.is_of(DATABASE)
    ]
    assert wrong == []


def test_nothing_below_the_entry_points_imports_the_app() -> None:
    entry_points = {"backend.app", "backend._wsgi", "backend.cli", "backend.serve", "backend.worker"}
    wrong = [
        str(found)
        for found in package_imports("backend")
        if found.is_of({"backend.app"})
        and found.module not in entry_points
        and not found.module.startswith("backend.commands")
    ]
    assert wrong == []


def test_core_never_imports_the_backend() -> None:
    assert [str(found) for found in package_imports("fdr_core") if found.is_of({"backend"})] == []


@pytest.mark.parametrize("package", ["fdr_core", "backend"])
def test_environment_is_read_only_by_settings_and_entry_points(package: str) -> None:
    # gunicorn loads its settings as a module; serve hands its environment on; Prometheus has a variable of its own.
    allowed = {"backend.settings", "backend._wsgi", "backend.cli", "backend.sdk_model"}
    allowed |= {"backend.gunicorn_settings", "backend.serve", "backend.web.metrics"}
    wrong = [
        f"{name}:{node.lineno}"
        for name, tree in modules(package).items()
        if name not in allowed and not name.startswith("backend.commands")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv"}
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["fdr_core", "backend"])
def test_modules_at_import_only_define(package: str) -> None:
    """Module level holds definitions, constants and calls that only build values; never a bare call."""
    allowed_files = {"backend._wsgi", "backend.migrations.env", "backend.__main__"}
    wrong = [
        f"{name}:{node.lineno} runs {ast.unparse(node)[:60]}"
        for name, tree in modules(package).items()
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


@pytest.mark.parametrize("package", ["fdr_core", "backend"])
def test_modules_size_stays_readable(package: str) -> None:
    """Around 400 lines is the moment to look for a seam; half as much again is too late."""
    limit = 600
    long = [
        f"{path.relative_to(ROOT)} has {lines} lines"
        for path in sorted((ROOT / package).rglob("*.py"))
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > limit
    ]
    assert long == []


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
