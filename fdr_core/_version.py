__version__ = "0.1.0"


def versions() -> dict[str, str]:
    """Versions of everything the figures depend on."""
    import platform
    from importlib import metadata

    packages = {name: metadata.version(name) for name in ("numpy", "pandas", "scipy")}
    return {"evenhand": __version__, **packages, "python": platform.python_version()}
