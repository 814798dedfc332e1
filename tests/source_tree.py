"""Reads a source tree without importing it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


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

    def _module_name(self, path: Path) -> str:
        parts = path.relative_to(self.root).with_suffix("").parts
        # A folder on the way to a package is no part of its name.
        parts = parts[1:] if parts[0] == "backend" else parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
