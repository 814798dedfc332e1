"""Change the source in small ways, one at a time, and see whether a test notices.

python -m scripts.mutants                          a hundred mutants of all subjects, about an hour
python -m scripts.mutants --sample 20 --seed 7     twenty others
python -m scripts.mutants --only fdr_core.consensus.ranking --sample 0     every mutant of one subject

Works on a copy of the project. Prints the mutants that no test noticed, each to be killed by a new test or listed in
scripts/judged_mutants.toml with the reason why no test can; exits with 1 if more than one in ten are left.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from scripts.mutations import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
JUDGED = Path(__file__).with_name("judged_mutants.toml")
COPIED = ("backend", "benchmarks", "docker", "docs", "examples", "fdr_core", "harness", "scripts", "tests")
MARKERS = "not slow and not postgres and not browser and not labelstudio and not spark"
MOST_SURVIVORS = 0.1
#: What is mutated, and the tests that mirror it.
SUBJECTS = {
    "fdr_core.audit": (
        "tests/core/test_audit_counts.py",
        "tests/core/test_audit_limits.py",
        "tests/core/test_audit.py",
        "tests/core/test_audit_orders.py",
    ),
    "fdr_core.evidence": ("tests/core/test_evidence.py",),
    "fdr_core.consensus.ranking": ("tests/core/test_ranking.py", "tests/core/test_logistic_ranking.py"),
    "fdr_core.paper.draws": ("tests/core/test_selection.py",),
    "fdr_core.selection": ("tests/core/test_selection.py", "tests/core/test_weighted_list.py"),
    "evenhand.ingest.events": (
        "tests/backend/test_events.py",
        "tests/backend/test_ml_api.py",
        "tests/backend/test_pull_and_events.py",
    ),
    "evenhand.label_studio.payloads": (
        "tests/backend/test_payloads.py",
        "tests/backend/test_payload_limits.py",
        "tests/backend/test_captured_payloads.py",
        "tests/backend/test_controls.py",
    ),
    "evenhand.publish.predictions": ("tests/backend/test_publish_plan.py",),
    "evenhand.runs.schedule": ("tests/backend/test_schedule.py", "tests/backend/test_clock_jumps.py"),
    "evenhand.store.merge": (
        "tests/backend/test_merge.py",
        "tests/backend/test_store_comparisons.py",
        "tests/backend/test_pull.py",
    ),
    "evenhand.web.auth": ("tests/backend/test_access.py", "tests/backend/test_security.py"),
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
    """Draw mutants, all of them where the sample is 0, without those that were judged."""
    judged = _judged()
    every = [
        (subject, path, mutant)
        for subject in only or SUBJECTS
        for path in sources(subject)
        for mutant in mutants((ROOT / path).read_text(encoding="utf-8"))
        if not any(is_judged(mutant, path, entry) for entry in judged)
    ]
    drawn = random.Random(seed).sample(every, min(sample or len(every), len(every)))
    return sorted(drawn, key=lambda entry: (entry[0], str(entry[1]), entry[2].line))


def is_judged(mutant: Mutant, path: Path, entry: dict[str, str]) -> bool:
    """Whether an entry is about this mutant: its file, its change and, where it names one, a piece of its line."""
    line = mutant.original.splitlines()[mutant.line - 1]
    return (entry["file"], entry["change"]) == (str(path), str(mutant)) and entry.get("within", "") in line


def _judged() -> list[dict[str, str]]:
    entries: list[dict[str, str]] = tomllib.loads(JUDGED.read_text(encoding="utf-8")).get("mutant", [])
    return entries


def passes(folder: Path, subject: str, limit: float) -> bool:
    """Run a subject's tests in a copy of the project; a hang is a failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", MARKERS]
    try:
        done = subprocess.run([*command, *SUBJECTS[subject]], cwd=folder, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def limits(folder: Path, subjects: set[str]) -> dict[str, float]:
    """Seconds a subject's tests may take: several times what they take unchanged."""
    found = {}
    for subject in sorted(subjects):
        begun = time.monotonic()
        if not passes(folder, subject, 900.0):
            raise SystemExit(f"the tests of {subject} fail before anything is changed: {' '.join(SUBJECTS[subject])}")
        found[subject] = 3 * (time.monotonic() - begun) + 20
    return found


def attempt(folder: Path, subject: str, path: Path, mutant: Mutant, limit: float) -> Tried:
    """Try one mutant and put the source back."""
    target = folder / path
    former = target.read_text(encoding="utf-8")
    target.write_text(mutant.source, encoding="utf-8")
    try:
        return Tried(path, mutant, not passes(folder, subject, limit))
    finally:
        target.write_text(former, encoding="utf-8")


def copied(folder: Path) -> Path:
    """Copy what tests read."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "images"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder / path.name)
    return folder


def main() -> int:
    """Try the mutants and say which no test noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=100, help="how many; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], choices=sorted(SUBJECTS), metavar="SUBJECT")
    options = parser.parse_args()
    drawn = chosen(options.only, options.sample, options.seed)
    survivors = []
    with tempfile.TemporaryDirectory(prefix="evenhand-mutants-") as name:
        folder = copied(Path(name))
        seconds = limits(folder, {subject for subject, _, _ in drawn})
        for number, (subject, path, mutant) in enumerate(drawn, start=1):
            tried = attempt(folder, subject, path, mutant, seconds[subject])
            print(f"{number}/{len(drawn)} {'noticed ' if tried.is_noticed else 'SURVIVED'} {tried}", flush=True)
            survivors += [] if tried.is_noticed else [tried]
    print(f"\n{len(survivors)} of {len(drawn)} mutants survived (seed {options.seed})", *survivors, sep="\n")
    return int(len(survivors) > MOST_SURVIVORS * len(drawn))


if __name__ == "__main__":
    sys.exit(main())
