"""Compare the lock files with the known advisories, without a network: `python scripts/check_advisories.py`."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
ADVISORIES = ROOT / "requirements" / "advisories.toml"
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-label-studio.lock")


def read_advisories(path: Path = ADVISORIES) -> dict[str, Any]:
    """The list of advisories."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def read_pins(text: str) -> dict[str, Version]:
    """Name and version of every package a lock file pins."""
    found = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", text, re.MULTILINE)
    return {_normal(name): Version(version) for name, version in found}


def holes(pins: dict[str, Version], known: dict[str, Any], where: str) -> list[str]:
    """Pins inside a vulnerable range that nobody accepted, and overridden pins that came back."""
    wrong = []
    for entry in known["advisory"]:
        version = pins.get(_normal(entry["package"]))
        is_hit = version is not None and SpecifierSet(entry["vulnerable"]).contains(version, prereleases=True)
        if is_hit and not entry.get("accepted"):
            wrong.append(
                f"{where}: {entry['package']} {version} has {entry['id']} ({entry['vulnerable']}): {entry['matters']}; "
                "raise it in pyproject.toml or requirements/ and run `make lock`"
            )
    for entry in known["overridden"]:
        for pin in entry["pins"]:
            name, _, version = pin.partition("==")
            if pins.get(_normal(name)) == Version(version):
                wrong.append(f"{where}: {pin}, which {entry['by']} asks for, is back; see requirements/overrides.txt")
    return wrong


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    """Check all lock files."""
    known = read_advisories()
    wrong = []
    for name in LOCKS:
        pins = read_pins((ROOT / name).read_text(encoding="utf-8"))
        wrong += holes(pins, known, name)
        print(f"{name}: {len(pins)} packages")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(known['advisory'])} advisories, reviewed {known['reviewed']}: {len(wrong)} to mend")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
