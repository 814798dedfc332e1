"""What is long and rare: `python scripts/trials.py [TRIAL [ARGUMENT ...]]`; without a name all, one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRIALS: dict[str, tuple[str, ...]] = {
    "simulation": ("pytest", "-q", "-n", "2", "--dist", "worksteal", "tests/statistical"),
    "fuzz": ("tests.fuzz",),
    "storm": ("tests.label_studio.storm",),
    "releases": ("tests.label_studio.releases",),
    "first-flag": ("tests.label_studio.first_flag",),
    "faults": ("tests.faults",),
    "attacks": ("tests.attacks", "--long"),
    "mutants": ("scripts.mutants",),
}


def main(arguments: list[str]) -> int:
    """Run the named trial with its arguments, or all; return the first exit code that is not zero."""
    name, *rest = arguments or [""]
    if name and name not in TRIALS:
        print(f"unknown trial {name}; the trials are {', '.join(TRIALS)}", file=sys.stderr)
        return 2
    codes = {}
    for trial in [name] if name else TRIALS:
        print(f"\n### {trial}", flush=True)
        command = [sys.executable, "-m", *TRIALS[trial], *rest]
        environment = {**os.environ, "EVENHAND_TRIALS": "1"}
        codes[trial] = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    print(
        "\n### summary",
        *(f"{trial}: {f'exit code {code}' if code else 'ok'}" for trial, code in codes.items()),
        sep="\n",
    )
    return next((code for code in codes.values() if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
