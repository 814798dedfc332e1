"""Every attack against a running service, and a table of what held.

python -m tests.attacks            a few seconds each
python -m tests.attacks --long     as often as SECURITY.md says
python -m tests.attacks --only wrong-passwords
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.attacks.cases import ATTACKS, LONG, SHORT, attacked


def main() -> int:
    """Run the attacks; the number of those that succeeded."""
    parser = argparse.ArgumentParser(description="Attacks on a running service.")
    parser.add_argument("--long", action="store_true", help="as often as SECURITY.md says")
    parser.add_argument("--only", action="append", choices=list(ATTACKS), help="only this one")
    options = parser.parse_args()
    print("| attack | what is tried | tried | seen | held |\n|---|---|---|---|---|")
    succeeded = 0
    for name in options.only or ATTACKS:
        with tempfile.TemporaryDirectory(prefix="evenhand-attack-") as folder, attacked(Path(folder)) as service:
            outcome = ATTACKS[name](service, LONG if options.long else SHORT)
        words = (ATTACKS[name].__doc__ or "").strip().splitlines()[0]
        print(
            f"| {name} | {words} | {outcome.tried} | {outcome.seen} | {'yes' if outcome.held else 'NO'} |", flush=True
        )
        succeeded += not outcome.held
    return succeeded


if __name__ == "__main__":
    sys.exit(main())
