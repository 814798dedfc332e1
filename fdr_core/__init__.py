"""Position-biased annotators in pairwise comparisons, found with a stated error rate."""

from fdr_core._version import __version__
from fdr_core.comparisons import Comparisons
from fdr_core.detect import Detection, detect
from fdr_core.errors import ConfigurationError, DesignError, FdrCoreError, InputError, MissingExtraError
from fdr_core.statistics import SufficientStatistics

__all__ = [
    "Comparisons",
    "ConfigurationError",
    "DesignError",
    "Detection",
    "FdrCoreError",
    "InputError",
    "MissingExtraError",
    "SufficientStatistics",
    "__version__",
    "detect",
]
