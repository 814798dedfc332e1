#!/usr/bin/env python
"""Write the secrets of the compose files once: a value from the environment, else the kept one, else a random one."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

# Name of the variable -> random bytes of a value made here. Label Studio wants a token of 40 hexadecimal digits.
VALUES = {
    "POSTGRES_PASSWORD": 24,
    "LABEL_STUDIO_DATABASE_PASSWORD": 24,
    "EVENHAND_DATABASE_PASSWORD": 24,
    "LABEL_STUDIO_PASSWORD": 12,
    "LABEL_STUDIO_API_KEY": 20,
    "BASIC_AUTH_PASS": 12,
    "EVENHAND_WEBHOOK_SECRET": 24,
    "EVENHAND_SECRET_KEY": 32,
}


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by the containers that mount its folder."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.chmod(0o444)
    part.replace(path)


def value(name: str, environ: Mapping[str, str], kept: Path) -> str:
    """Return the environment's value, else the kept one, else a new random one."""
    if environ.get(name):
        return environ[name]
    return kept.read_text(encoding="utf-8") if kept.exists() else secrets.token_hex(VALUES[name])


def main(root: Path, environ: Mapping[str, str]) -> None:
    """Fill one folder per reader, so that each container sees only the secrets it needs."""
    database, label_studio, evenhand = root / "database", root / "label-studio", root / "evenhand"
    homes = {
        "POSTGRES_PASSWORD": database,
        "LABEL_STUDIO_DATABASE_PASSWORD": database,
        "EVENHAND_DATABASE_PASSWORD": database,
        "LABEL_STUDIO_PASSWORD": label_studio,
    }
    found = {}
    for name in VALUES:
        path = homes.get(name, evenhand) / name
        found[name] = value(name, environ, path)
        write(path, found[name])
    exports = {
        "LABEL_STUDIO_PASSWORD": found["LABEL_STUDIO_PASSWORD"],
        "LABEL_STUDIO_USER_TOKEN": found["LABEL_STUDIO_API_KEY"],
        "POSTGRE_PASSWORD": found["LABEL_STUDIO_DATABASE_PASSWORD"],
    }
    lines = [f"export {name}={shlex.quote(text)}\n" for name, text in exports.items()]
    write(label_studio / "label-studio.env", "".join(lines))
    password = quote(found["EVENHAND_DATABASE_PASSWORD"], safe="")
    write(evenhand / "DATABASE_URL", f"postgresql://evenhand:{password}@database:5432/evenhand")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "/secrets"), os.environ)
