"""Cells: named, seeded units of work whose results are stored, so that a restart resumes and new code recomputes."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("fdr_core", "benchmarks.results", "harness")
#: They bring answers in or show results; nothing in them changes a number.
EDGES = {
    "fdr_core",
    "fdr_core.inputs.columns",
    "fdr_core._version",
    "fdr_core.comparisons",
    "fdr_core.errors",
    "fdr_core.guarantee",
    "fdr_core.inputs.item_keys",
    "fdr_core.inputs.label_studio",
    "fdr_core.inputs.tables",
    "fdr_core.plot",
}


@dataclass(frozen=True)
class Cell:
    """
    One unit of work.

    Attributes
    ----------
    name : unique, also the file's name.
    function : "module:function", called with the parameters, returns what JSON can hold.
    needs : folders and files outside the code that matter, by their state (real data).
    """

    name: str
    function: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""

    @property
    def key(self) -> str:
        """Hash of the parameters and of the code that matters."""
        module = self.function.split(":")[0]
        text = json.dumps([self.function, dict(self.parameters), self.state, code_hash(module)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def compute(self) -> Any:
        """Call the function."""
        module, name = self.function.split(":")
        return getattr(import_module(module), name)(**self.parameters)


@cache
def code_hash(module: str) -> str:
    """Hash a module and what it imports of this project, without comments and docstrings."""
    digest = hashlib.sha256()
    for name in sorted(closure(module)):
        digest.update(name.encode())
        digest.update(ast.dump(_without_docstrings(_tree(name))).encode())
    return digest.hexdigest()


def closure(module: str) -> set[str]:
    """Name the modules of this project that a module's results can depend on."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found and name not in EDGES and _path(name) is not None:
            found.add(name)
            waiting += _imports(_tree(name))
    return found


def _imports(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.startswith(PACKAGES))


def _path(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def _tree(module: str) -> ast.Module:
    path = _path(module)
    assert path is not None, module
    return ast.parse(path.read_text(encoding="utf-8"))


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """Leave out what a body begins with and does not do: docstrings and dots. Doing it again changes nothing."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        while body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        node.body = body or [ast.Pass()]  # type: ignore[attr-defined]  # it has a body: seen above
    return tree


class Store:
    """Results in a folder, one file per cell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """Give the stored record, None where it is missing or belongs to other code or parameters."""
        record = self.latest(cell)
        return record if record and record["key"] == cell.key else None

    def latest(self, cell: Cell) -> dict[str, Any] | None:
        """Give the stored record whatever code it came from."""
        path = self._file(cell)
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def write(self, cell: Cell, result: Any, seconds: float, key: str | None = None) -> None:
        """Store a result, under the key that the cell had when the code was loaded; the file appears whole or not."""
        record: dict[str, Any] = {"cell": cell.name, "key": key or cell.key, "parameters": dict(cell.parameters)}
        record |= {"seconds": round(seconds, 2), "date": time.strftime("%Y-%m-%d"), "result": result}
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._file(cell)
        draft = path.with_suffix(f".{os.getpid()}.draft")
        draft.write_text(json.dumps(record), encoding="utf-8")
        draft.replace(path)

    def _file(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.json"


@dataclass(frozen=True)
class Progress:
    """What a run left open: cells that ended in an error, and cells that the time did not reach."""

    failed: list[str]
    unreached: list[str]


def tell(line: str) -> None:
    """Print at once, so that a log can be followed."""
    print(line, flush=True)


def run_cells(
    cells: list[Cell], store: Store, *, processes: int, minutes: float, say: Callable[[str], None] = tell
) -> Progress:
    """
    Compute what is not stored yet, the first cells first, in a pool; start none after the time is up.

    Returns
    -------
    The names of cells that ended in an error, and of those that were not reached.
    """
    waiting = [cell for cell in cells if store.read(cell) is None]
    say(f"{len(cells)} cells, {len(cells) - len(waiting)} stored, {len(waiting)} to compute")
    failed: list[str] = []
    keys = {cell.name: cell.key for cell in waiting}  # of the code as it is now, whatever is edited meanwhile
    deadline = time.monotonic() + 60 * minutes
    running: dict[Future[float], Cell] = {}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        while waiting or running:
            while waiting and len(running) < processes and time.monotonic() < deadline:
                cell = waiting.pop(0)
                running[pool.submit(_compute_and_store, cell, store, keys[cell.name])] = cell
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                left = len(waiting) + len(running)
                if error := future.exception():
                    failed.append(cell.name)
                    say(f"{cell.name}: failed: {error} ({left} left)")
                    traceback.print_exception(error, file=sys.stderr)
                else:
                    say(f"{cell.name}: {future.result():.1f} s ({left} left)")
    return Progress(failed, [cell.name for cell in waiting])


def _compute_and_store(cell: Cell, store: Store, key: str) -> float:
    record = store.latest(cell)
    if record and record["key"] == key:  # another run was here meanwhile
        return float(record["seconds"])
    begun = busy_seconds()
    result = cell.compute()
    seconds = busy_seconds() - begun
    store.write(cell, result, seconds, key)
    return seconds


def busy_seconds() -> float:
    """Processor time of this process and of those that it waited for, so that a busy machine does not count."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _one_thread() -> None:
    """Libraries that start pools of their own later find one thread too."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
