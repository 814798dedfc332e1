"""Cells: named, seeded units of work whose results are stored, so that a restart resumes and new code recomputes.

A record names the modules of this project that were loaded when it was computed, with a hash of their code. It is as
old as the first change of one of them: a module that was not loaded can only come in by such a change.
"""

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

STARTED = time.time()
ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("fdr_core", "benchmarks", "harness")


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
    def asked(self) -> dict[str, Any]:
        """What is computed, as a record names it."""
        return {"function": self.function, "parameters": json.loads(json.dumps(self.parameters)), "state": self.state}

    def compute(self) -> Any:
        """Call the function."""
        module, name = self.function.split(":")
        return getattr(import_module(module), name)(**self.parameters)


def loaded() -> list[str]:
    """The modules of this project that are loaded."""
    return sorted(name for name in sys.modules if name.split(".")[0] in PACKAGES and _path(name))


def code_hash(modules: Iterable[str]) -> str:
    """Hash the code of modules, without comments and docstrings; of one that is gone, that it is."""
    digest = hashlib.sha256()
    for name in modules:
        digest.update(f"{name} {_module_hash(name)}".encode())
    return digest.hexdigest()[:16]


@cache
def _module_hash(name: str) -> str:
    path = _path(name)
    if path is None:
        return "gone"
    tree = _without_docstrings(ast.parse(path.read_text(encoding="utf-8")))
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _path(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


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
        """Give the stored record, None where it is missing or belongs to other code, parameters or data."""
        record = self.latest(cell)
        return record if record and is_fresh(record, cell) else None

    def latest(self, cell: Cell) -> dict[str, Any] | None:
        """Give the stored record whatever code it came from."""
        path = self._file(cell)
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def write(self, cell: Cell, result: Any, seconds: float = 0.0) -> None:
        """Store a result beside the code that is loaded now; the file appears whole or not."""
        modules = loaded()
        record: dict[str, Any] = {"cell": cell.name, "asked": cell.asked, "seconds": round(seconds, 2)}
        record |= {"date": time.strftime("%Y-%m-%d"), "code": code_hash(modules), "modules": modules, "result": result}
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._file(cell)
        draft = path.with_suffix(f".{os.getpid()}.draft")
        draft.write_text(json.dumps(record), encoding="utf-8")
        draft.replace(path)

    def _file(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.json"


def is_fresh(record: Mapping[str, Any], cell: Cell) -> bool:
    """Whether a record answers what the cell asks, by the code as it is."""
    return bool(record["asked"] == cell.asked and record["code"] == code_hash(record["modules"]))


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
    deadline = time.monotonic() + 60 * minutes
    running: dict[Future[float], Cell] = {}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        while waiting or running:
            while waiting and len(running) < processes and time.monotonic() < deadline:
                cell = waiting.pop(0)
                running[pool.submit(_compute_and_store, cell, store)] = cell
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


def _compute_and_store(cell: Cell, store: Store) -> float:
    if record := store.read(cell):  # another run was here meanwhile
        return float(record["seconds"])
    begun = busy_seconds()
    result = cell.compute()
    seconds = busy_seconds() - begun
    edited = [name for name in loaded() if (path := _path(name)) and path.stat().st_mtime > STARTED]
    if edited:
        raise RuntimeError(f"{', '.join(edited)} changed while this ran; run the same command again")
    store.write(cell, result, seconds)
    return seconds


def busy_seconds() -> float:
    """Processor time of this process and of those that it waited for, so that a busy machine does not count."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _one_thread() -> None:
    """Libraries that start pools of their own later find one thread too."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
