"""The product's version, from the installed package: importing the core for it would load all of numpy and scipy."""

from importlib.metadata import PackageNotFoundError, version


def product_version() -> str:
    """The installed version, 'unknown' in a bare source tree."""
    try:
        return version("evenhand")
    except PackageNotFoundError:
        return "unknown"
