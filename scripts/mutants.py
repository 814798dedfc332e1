"""Change the source in small ways, one at a time, and see whether a test notices.

python -m scripts.mutants                          twenty-five mutants of each area, about an hour
python -m scripts.mutants --sample 5 --seed 7      five others
python -m scripts.mutants --only evenhand.web.auth --sample 0     every mutant of one subject

Works on a copy of the project. Prints the mutants that no fast test noticed, each to be killed by a new test or listed
in scripts/judged_mutants.toml with the reason why no test can; exits with 1 if more than one in ten are left.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import multiprocessing
import os
import py_compile
import random
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.mutations import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
JUDGED = Path(__file__).with_name("judged_mutants.toml")
COPIED = ("backend", "benchmarks", "docker", "docs", "examples", "fdr_core", "harness", "scripts", "tests")
MARKERS = "not slow and not postgres and not browser and not labelstudio and not spark"
MOST_SURVIVORS = 0.1
HANGS = 600.0
#: Loaded once, before the children are forked; nothing of the project may be.
INSTALLED = (
    "numpy",
    "scipy.stats",
    "scipy.optimize",
    "scipy.sparse",
    "pandas",
    "flask",
    "sqlalchemy",
    "alembic.command",
)
FORK = multiprocessing.get_context("fork")
#: What is mutated, by area, and the tests that mirror it; what they do not notice meets all tests of the area.
AREAS: dict[str, dict[str, tuple[str, ...]]] = {
    "decision": {
        "fdr_core.audit": ("core/test_audit_counts.py", "core/test_audit_limits.py", "core/test_item_balance.py"),
        "fdr_core.evidence": ("core/test_evidence.py",),
        "fdr_core.randomisation.coins": ("core/test_randomisation.py",),
        "fdr_core.randomisation.convolution": ("core/test_convolution.py",),
        "fdr_core.randomisation.placed": ("core/test_placed.py",),
        "fdr_core.randomisation.shared": ("core/test_bets.py", "core/test_shared_coins.py"),
        "fdr_core.selection": ("core/test_selection.py", "core/test_weighted_list.py"),
        "fdr_core.spending": ("core/test_spending.py",),
    },
    "reader": {
        "fdr_core.inputs.label_studio": ("core/inputs/label_studio", "backend/test_controls.py"),
        "evenhand.label_studio.payloads": ("backend/test_payloads.py", "backend/test_payload_limits.py"),
        "evenhand.ingest.events": ("backend/test_events.py", "backend/test_ml_api.py", "attacks/test_framing.py"),
        "evenhand.projects.reading": ("backend/test_agreed_reading.py",),
    },
    "store": {
        "evenhand.store.backup": ("backend/test_backup.py", "attacks/test_backups.py"),
        "evenhand.store.comparisons": ("backend/test_merge.py", "backend/test_store_comparisons.py"),
        "evenhand.store.decisions": ("backend/test_store_runs.py", "attacks/test_framing.py"),
        "evenhand.store.merge": ("backend/test_merge.py", "backend/test_pull.py"),
        "evenhand.store.people": ("backend/test_annotator.py",),
        "evenhand.store.revisions": ("attacks/test_framing.py",),
        "evenhand.store.runs": ("backend/test_store_runs.py", "attacks/test_health.py"),
    },
    "rights": {
        "evenhand.ingest.reviews": ("attacks/test_identity.py", "backend/test_publish.py"),
        "evenhand.store.accounts": ("attacks/test_identity.py", "attacks/test_open_mode.py"),
        "evenhand.web.auth": ("backend/test_access.py", "attacks/test_open_mode.py", "attacks/test_defences.py"),
        "evenhand.web.passwords": ("backend/test_trust.py",),
    },
}
SUBJECTS = {subject: tests for area in AREAS.values() for subject, tests in area.items()}
#: Tests that walk through a whole area.
ACROSS = {
    "decision": (*(f"core/test_{name}.py" for name in ("audit", "audit_orders", "detection", "premises")),),
    "reader": ("backend/test_one_reader.py", "backend/test_lists.py", "core/inputs/test_tables.py"),
    "store": ("backend/test_api_v1.py", "backend/test_worker.py"),
    "rights": ("attacks/test_rights.py", "backend/test_roles.py", "backend/test_security.py", "backend/dashboard"),
}


@dataclass(frozen=True)
class Tried:
    """A mutant of a file, and whether a test noticed it."""

    path: Path
    mutant: Mutant
    is_noticed: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.mutant.line}: {self.mutant}"


def sources(subject: str) -> list[Path]:
    """The files of a module or package, relative to the project."""
    base = Path(*(["backend"] if subject.startswith("evenhand") else []), *subject.split("."))
    return [base.with_suffix(".py")] if (ROOT / base).with_suffix(".py").is_file() else _modules(base)


def _modules(package: Path) -> list[Path]:
    found = sorted(path.relative_to(ROOT) for path in (ROOT / package).rglob("*.py"))
    if not found:
        raise SystemExit(f"{package} is neither a module nor a package; mend SUBJECTS in {__file__}")
    return found


def chosen(only: list[str], sample: int, seed: int) -> list[tuple[str, Path, Mutant]]:
    """Draw as many mutants of each area, all of them where the sample is 0, without those that were judged."""
    judged, drawn = _judged(), []
    for area in AREAS.values():
        every = [
            (subject, path, mutant)
            for subject in area
            if not only or subject in only
            for path in sources(subject)
            for mutant in mutants((ROOT / path).read_text(encoding="utf-8"))
            if not any(is_judged(mutant, path, entry) for entry in judged)
        ]
        picked = random.Random(seed).sample(every, min(sample or len(every), len(every)))
        drawn += sorted(picked, key=lambda entry: (entry[0], str(entry[1]), entry[2].line))
    return drawn


def is_judged(mutant: Mutant, path: Path, entry: dict[str, str]) -> bool:
    """Whether an entry is about this mutant: its file, its change and, where it names one, a piece of its line."""
    line = mutant.original.splitlines()[mutant.line - 1]
    return (entry["file"], entry["change"]) == (str(path), str(mutant)) and entry.get("within", "") in line


def _judged() -> list[dict[str, str]]:
    entries: list[dict[str, str]] = tomllib.loads(JUDGED.read_text(encoding="utf-8")).get("mutant", [])
    return entries


def passes(folder: Path, tests: Sequence[str]) -> bool:
    """Run tests in a copy of the project; a hang is a failure."""
    child = FORK.Process(target=_run, args=(folder, tests))
    child.start()
    child.join(HANGS)
    if child.is_alive():
        child.kill()
        child.join()
    return child.exitcode == 0


def _run(folder: Path, tests: Sequence[str]) -> None:
    """In a child of its own: nothing of the project is loaded yet, and what is installed elsewhere is not taken."""
    os.chdir(folder)
    sys.path[:0] = [str(folder), str(folder / "backend")]
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", MARKERS]
    os._exit(int(pytest.main([*options, *(f"tests/{path}" for path in tests)])))


def wide(subject: str) -> list[str]:
    """The tests of a subject's whole area."""
    name = next(name for name, area in AREAS.items() if subject in area)
    mirrors = {path for tests in AREAS[name].values() for path in tests}
    return [*ACROSS[name], *sorted(mirrors - set(SUBJECTS[subject]))]


def attempt(folder: Path, subject: str, path: Path, mutant: Mutant) -> Tried:
    """Try one mutant and put the source back."""
    target = folder / path
    former = target.read_text(encoding="utf-8")
    target.write_text(mutant.source, encoding="utf-8")
    try:
        return Tried(path, mutant, not (passes(folder, SUBJECTS[subject]) and passes(folder, wide(subject))))
    finally:
        target.write_text(former, encoding="utf-8")


def copied(folder: Path) -> Path:
    """Copy what tests read."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "images"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder / path.name)
    # Compiled by what the sources hold, not by their times: a mutant may be as old and as long as what it replaces.
    compileall.compile_dir(folder, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    return folder


def main() -> int:
    """Try the mutants and say which no test noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=25, help="how many of each area; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], choices=sorted(SUBJECTS), metavar="SUBJECT")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    for installed in INSTALLED:
        importlib.import_module(installed)
    drawn = chosen(options.only, options.sample, options.seed)
    survivors = []
    with tempfile.TemporaryDirectory(prefix="evenhand-mutants-") as name:
        folder = copied(Path(name))
        for subject in sorted({subject for subject, _, _ in drawn}):
            if not passes(folder, SUBJECTS[subject]):
                raise SystemExit(f"tests of {subject} fail before anything is changed: {' '.join(SUBJECTS[subject])}")
        for number, (subject, path, mutant) in enumerate(drawn, start=1):
            tried = attempt(folder, subject, path, mutant)
            print(f"{number}/{len(drawn)} {'noticed ' if tried.is_noticed else 'SURVIVED'} {tried}", flush=True)
            survivors += [] if tried.is_noticed else [tried]
    print(f"\n{len(survivors)} of {len(drawn)} mutants survived (seed {options.seed})", *survivors, sep="\n")
    return int(len(survivors) > MOST_SURVIVORS * len(drawn))


if __name__ == "__main__":
    sys.exit(main())
