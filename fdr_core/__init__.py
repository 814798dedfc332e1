"""Position-biased annotators in pairwise comparisons, found with a stated error rate."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fdr_core._version import __version__

if TYPE_CHECKING:
    from fdr_core.comparisons import Comparisons
    from fdr_core.detection import Detection, detect
    from fdr_core.errors import ConfigurationError, DesignError, FdrCoreError, InputError, MissingExtraError
    from fdr_core.judges.record import record
    from fdr_core.paper.knockoff_lbi import KnockoffLBI
    from fdr_core.statistics import SufficientStatistics

# Loaded at first use: a web server that only needs a name from here should not wait for scipy and pandas.
_HOME = {
    "Comparisons": "comparisons",
    "ConfigurationError": "errors",
    "DesignError": "errors",
    "Detection": "detection",
    "FdrCoreError": "errors",
    "InputError": "errors",
    "KnockoffLBI": "paper.knockoff_lbi",
    "MissingExtraError": "errors",
    "SufficientStatistics": "statistics",
    "detect": "detection",
    "record": "judges.record",
}

__all__ = [
    "Comparisons",
    "ConfigurationError",
    "DesignError",
    "Detection",
    "FdrCoreError",
    "InputError",
    "KnockoffLBI",
    "MissingExtraError",
    "SufficientStatistics",
    "__version__",
    "detect",
    "record",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
