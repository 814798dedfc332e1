"""The exceptions of fdr_core.

    FdrCoreError
    ├── InputError (ValueError)          the data cannot be read as comparisons
    ├── ConfigurationError (ValueError)  an option is outside its range or does not fit the others
    ├── DesignError                      the design does not allow what was asked for
    └── MissingExtraError (ImportError)  an optional dependency is not installed

Every message says where, what was seen, what was expected, and what to do next.
"""

__all__ = ["ConfigurationError", "DesignError", "FdrCoreError", "InputError", "MissingExtraError"]


class FdrCoreError(Exception):
    """Root of everything fdr_core raises on purpose."""


class InputError(FdrCoreError, ValueError):
    """The data cannot be read as comparisons."""


class ConfigurationError(FdrCoreError, ValueError):
    """An option is outside its range or does not fit the others."""


class DesignError(FdrCoreError):
    """The design (who compared what, on which side) does not allow what was asked for."""


class MissingExtraError(FdrCoreError, ImportError):
    """An optional dependency is not installed."""
