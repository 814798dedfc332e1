"""The service under faults: real processes, real databases, one fault at a time, the same questions after each.

python -m tests.faults                        every fault, on the database it is usually met with
python -m tests.faults --database postgres    on PostgreSQL, where the fault makes sense there
python -m tests.faults --only kill-worker     one fault (repeat the option for several)
python -m tests.faults --only kill-everything --rounds 30
python -m tests.faults --quick                the four that matter most
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.cases import CASES, Case, Setting
from tests.faults.machine import NotHereError
from tests.faults.rig import Outcome

QUICK = ("kill-web", "kill-worker", "torn-log", "scrambled-events")
HEADER = ("fault", "on", "acknowledged", "missing", "rows = LS", "new run", "published", "twice", "healthy", "result")


def try_case(case: Case, database: str, rounds: int = 3) -> Outcome:
    """One fault in a folder of its own; whatever goes wrong becomes a failure in the table."""
    outcome = Outcome(case.name, database)
    with tempfile.TemporaryDirectory(prefix="evenhand-fault-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as somebody else when we are root
        try:
            case.inject(Setting(Path(folder), database, rounds), outcome)
        except NotHereError as error:
            outcome.skipped = str(error)
        except Exception as error:  # the other faults are still worth trying
            outcome.failures.append(f"{type(error).__name__}: {error}")
        if outcome.failures:
            log = Path(folder) / "service.log"
            print(log.read_text(errors="replace")[-3000:] if log.exists() else "no log", file=sys.stderr)
    return outcome


def row(outcome: Outcome) -> tuple[str, ...]:
    """One line of the table."""
    if outcome.skipped:
        return (outcome.name, outcome.database, *[""] * 7, f"skipped: {outcome.skipped}")
    result = "FAILED: " + "; ".join(outcome.failures) if outcome.failures else "ok"
    same = f"{outcome.rows} yes" if not outcome.different else f"{outcome.different} differ"
    return (
        outcome.name,
        outcome.database,
        f"{outcome.acknowledged} of {outcome.sent}",
        str(outcome.missing),
        same,
        f"{outcome.run_seconds:.1f} s",
        str(outcome.published),
        str(outcome.duplicates),
        f"{outcome.healthy:.1f} s",
        "; ".join([result, *outcome.notes]),
    )


def chosen(only: list[str], database: str | None, quick: bool) -> list[tuple[Case, str]]:
    """Which faults on which database."""
    names = only or (list(QUICK) if quick else [case.name for case in CASES])
    unknown = sorted(set(names) - {case.name for case in CASES})
    if unknown:
        raise SystemExit(f"unknown fault {', '.join(unknown)}; known: {', '.join(case.name for case in CASES)}")
    return [
        (case, database or case.databases[0])
        for case in CASES
        if case.name in names and (database is None or database in case.databases)
    ]


def main() -> int:
    """Try the faults, print the table, and return how many failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--database", choices=("sqlite", "postgres"))
    parser.add_argument("--rounds", type=int, default=3, help="how often kill-everything kills")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}, python -m tests.faults {' '.join(sys.argv[1:])}")
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER), flush=True)
    failed = 0
    for case, database in chosen(options.only, options.database, options.quick):
        outcome = try_case(case, database, options.rounds)
        failed += bool(outcome.failures)
        print("| " + " | ".join(row(outcome)) + " |", flush=True)
    print(f"{failed} failed" if failed else "all held")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
