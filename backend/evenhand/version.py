"""The product's version, from the installed package: importing the core for it would load all of numpy and scipy."""

import platform
from importlib import metadata
from importlib.metadata import PackageNotFoundError, version


def product_version() -> str:
    """The installed version, 'unknown' in a bare source tree."""
    try:
        return version("evenhand")
    except PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    """Versions of everything the figures depend on."""
    packages = {name: metadata.version(name) for name in ("evenhand", "numpy", "pandas", "scipy")}
    return {**packages, "python": platform.python_version()}
