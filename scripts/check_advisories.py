"""Compare the lock files with the known advisories, without a network: `python scripts/check_advisories.py`.

With `--release` the list itself must be recent: one that nobody reviewed for 90 days knows nothing of newer holes.
"""

from __future__ import annotations

import datetime
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
ADVISORIES = ROOT / "requirements" / "advisories.toml"
OLDEST_DAYS = 90
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


def too_old(known: dict[str, Any], today: datetime.date) -> str | None:
    """What to do about a list that is too old to release with; None if it is recent."""
    age = (today - known["reviewed"]).days
    if 0 <= age <= OLDEST_DAYS:
        return None
    return (
        f"advisories.toml was reviewed {known['reviewed']}, {age} days ago, at most {OLDEST_DAYS} are allowed: run "
        "`uvx pip-audit --require-hashes --requirement requirements.lock` (and the other locks) with a network, add "
        "what it names, raise the pins with `make lock`, and set `reviewed`"
    )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    """Check all lock files, and with --release the list's age."""
    known = read_advisories()
    old = too_old(known, datetime.datetime.now(datetime.UTC).date()) if "--release" in sys.argv else None
    wrong = [old] if old else []
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
