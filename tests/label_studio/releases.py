"""The loop on the releases that `doctor` calls tried: python -m tests.label_studio.releases [VERSION …].

Each release has an environment of its own in `.label-studio/<version>/venv`, made from PyPI at its first use.
"""

from __future__ import annotations

import os
import subprocess
import sys

from harness.label_studio import ROOT

#: The newest release, and one of a year before.
RELEASES = ("1.23.2", "1.21.0")
TESTS = ("tests/label_studio/test_forms.py", "tests/label_studio/test_real_label_studio.py")


def main(versions: list[str]) -> int:
    """Run the loop on each release; the exit code of the first that fails."""
    codes = {}
    for version in versions or RELEASES:
        folder = ROOT / ".label-studio" / version / "venv"
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
