"""Where the external programs that some tests need are on this machine; no answer means that they are missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def is_ci() -> bool:
    """Tell whether a missing component must fail instead of skip."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def postgres() -> Path | None:
    """Return the folder that holds initdb and postgres."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda found: int(found.parent.parent.name), reverse=True
    )
    return installed[0].parent if installed else None


def chromium() -> Path | None:
    """Return a Chromium-like browser: the system's, else the one Playwright downloaded."""
    named = os.environ.get("CHROMIUM")
    if named:
        return Path(named)
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        found = shutil.which(name)
        # Ubuntu's /usr/bin/chromium-browser only asks for a snap, which containers do not have.
        if found and b"snap" not in Path(found).read_bytes()[:4096]:
            return Path(found)
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache" / "ms-playwright"))
    downloaded = sorted(cache.glob("chromium-*/chrome-linux*/chrome"))
    return downloaded[-1] if downloaded else None


def label_studio() -> Path | None:
    """Return the label-studio program of its own virtual environment."""
    folder = Path(os.environ.get("EVENHAND_LABEL_STUDIO_VENV") or ROOT / ".label-studio" / "venv")
    program = folder / "bin" / "label-studio"
    return program if program.exists() else None


def java() -> Path | None:
    """Return the java program that Spark would start: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    return Path(found) if found else None


COMPONENTS: dict[str, tuple[Callable[[], Path | None], str]] = {
    "postgres": (
        postgres,
        "PostgreSQL's initdb was found neither on PATH nor in /usr/lib/postgresql; run `make components`",
    ),
    "browser": (chromium, "no Chromium was found; run `make components` or set CHROMIUM to its path"),
    "labelstudio": (
        label_studio,
        "Label Studio is not installed in .label-studio/venv; run `make test`, which installs it",
    ),
    "spark": (java, "Spark needs Java 17 or newer and none was found; run `make components` or set JAVA_HOME"),
}

if __name__ == "__main__":
    finders = {"postgres": postgres, "chromium": chromium, "label-studio": label_studio, "java": java}
    print(finders[sys.argv[1]]() or "")
