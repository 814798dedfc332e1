"""Run the checks and the tests, or some parts of them: `python scripts/run_tests.py [PART ...]`.

All tests are one run of pytest in three processes, since one of them often waits for a server; tests that need the
same server share the process that started it (tests/conftest.py). The static checks run meanwhile and are told at the
end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATIC = "python -m ruff format --check && python -m ruff check && python -m mypy".replace("python", sys.executable)
SERVERS = "postgres or browser or labelstudio or spark"
#: Markers by part; a test with several of them belongs to the part that is named last.
PARTS = {
    "unit": f"not slow and not ({SERVERS})",
    "statistical": f"slow and not ({SERVERS})",
    "postgres": "postgres and not spark and not browser and not labelstudio",
    "spark": "spark and not browser and not labelstudio",
    "browser": "browser and not labelstudio",
    "labelstudio": "labelstudio",
}
PYTEST = (sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "loadgroup", "--durations=15")


def main(names: list[str]) -> int:
    """Run the named parts, or all; return the first exit code that is not zero."""
    wanted = names or ["static", *PARTS]
    unknown = sorted(set(wanted) - {"static", *PARTS})
    if unknown:
        print(f"unknown part {', '.join(unknown)}; the parts are static, {', '.join(PARTS)}", file=sys.stderr)
        return 2
    # Compiled tests are kept: without them every process compiles all it imports.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    checks = None
    if "static" in wanted:
        checks = subprocess.Popen(
            STATIC, shell=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    codes = {}
    if markers := [f"({PARTS[name]})" for name in wanted if name in PARTS]:
        command = [*PYTEST, "-m", " or ".join(markers)]
        codes["tests"] = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if checks is not None:
        said, _ = checks.communicate()
        print(f"\n### static\n{said}", end="")
        codes["static"] = checks.returncode
    print("\n### summary")
    for name, code in codes.items():
        print(f"{name}: {f'FAILED (exit code {code})' if code else 'ok'}")
    return next((code for code in codes.values() if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
