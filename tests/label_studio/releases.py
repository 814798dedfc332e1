"""The loop on the releases that `doctor` calls tried: python -m tests.label_studio.releases [VERSION …].

Each release has an environment of its own in `.label-studio/<version>/venv`, made from PyPI at its first use; the one
in the lock file has the environment of all tests.
"""

from __future__ import annotations

import os
import subprocess
import sys

from harness.label_studio import ROOT, environment_folder

#: The newest release, which the lock file pins, and one of a year before.
RELEASES = ("1.23.2", "1.21.0")
TESTS = tuple(f"tests/label_studio/test_{name}.py" for name in ("forms", "real_label_studio", "where_the_work_is"))


def main(versions: list[str]) -> int:
    """Run the loop on each release; the exit code of the first that fails."""
    codes = {}
    for version in versions or RELEASES:
        folder = ROOT / ".label-studio" / version / "venv" if version != RELEASES[0] else environment_folder()
        if not (folder / "bin" / "label-studio").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([str(folder / "bin" / "pip"), "install", "-q", f"label-studio=={version}"], check=True)
        environ = {**os.environ, "EVENHAND_LABEL_STUDIO_VENV": str(folder)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
        codes[version] = subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode
        print(f"Label Studio {version}: {f'exit code {codes[version]}' if codes[version] else 'ok'}", flush=True)
    return next((code for code in codes.values() if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
