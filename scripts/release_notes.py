#!/usr/bin/env python3
"""The changelog's part on one version, for its release: `scripts/release_notes.py 0.1.0`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes(version: str, changelog: str, code: str) -> str:
    """The part on a version; raises SystemExit where the code or the changelog is of another."""
    built = re.search(r'__version__ = "(.+)"', code)
    if built is None or built[1] != version:
        raise SystemExit(f"the tag is {version}, fdr_core/_version.py says {built and built[1]}; make them the same")
    part = re.search(rf"^## \[{re.escape(version)}\].*\n((?:(?!## ).*\n?)*)", changelog, re.M)
    if part is None or not part[1].strip():
        raise SystemExit(f"CHANGELOG.md has no part [{version}]; give [Unreleased] its number and date")
    return part[1].strip() + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: scripts/release_notes.py VERSION")
    print(
        notes(
            sys.argv[1],
            (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
            (ROOT / "fdr_core" / "_version.py").read_text(encoding="utf-8"),
        ),
        end="",
    )
