"""Reads a source tree without importing it: its modules, and what each of them imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One import statement's target, and whether it runs when the module is imported."""

    module: str
    target: str
    line: int
    at_import: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def is_within(module: str, package: str) -> bool:
    """Tell whether a module is the package itself or inside it."""
    return module == package or module.startswith(package + ".")


@dataclass(frozen=True)
class SourceTree:
    """The modules below a root folder, in the packages that are named."""

    root: Path
    packages: tuple[str, ...]

    @cached_property
    def files(self) -> dict[str, Path]:
        """Every module's file."""
        paths = (path for package in self.packages for path in sorted((self.root / package).rglob("*.py")))
        return {self._module_name(path): path for path in paths}

    @cached_property
    def modules(self) -> dict[str, ast.Module]:
        """Every module's syntax tree."""
        return {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in self.files.items()}

    @cached_property
    def imports(self) -> list[Import]:
        """Every import of every module."""
        packages = {name for name, path in self.files.items() if path.name == "__init__.py"}
        return [found for name, tree in self.modules.items() for found in imports(name, tree, packages)]

    def module_of(self, target: str) -> str | None:
        """Name the module of this tree that an import leads to; None where it leads outside."""
        while target and target not in self.files:
            target = target.rpartition(".")[0]
        return target or None

    def _module_name(self, path: Path) -> str:
        parts = path.relative_to(self.root).with_suffix("").parts
        # A folder on the way to a package is no part of its name.
        parts = parts[1:] if parts[0] == "backend" else parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(name: str, tree: ast.Module, packages: set[str]) -> list[Import]:
    """List what a module imports; `packages` are the names that stand for an `__init__.py`."""
    found = []
    for node, at_import in _nodes(tree):
        if isinstance(node, ast.Import):
            found += [Import(name, alias.name, node.lineno, at_import) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(name, node, packages)
            targets = [f"{base}.{alias.name}" if base else alias.name for alias in node.names]
            found += [Import(name, target, node.lineno, at_import) for target in targets]
    return found


def _nodes(node: ast.AST, at_import: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Walk the statements of a tree, telling which run at import; those under `if TYPE_CHECKING` never do."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            continue
        deferred = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        yield child, at_import
        yield from _nodes(child, at_import and not deferred and not typing_only)


def _absolute(name: str, node: ast.ImportFrom, packages: set[str]) -> str:
    if node.level == 0:
        return node.module or ""
    parents = name.split(".") if name in packages else name.split(".")[:-1]
    kept = parents[: len(parents) - (node.level - 1)]
    return ".".join([*kept, node.module] if node.module else kept)
