"""Is this design fit to judge anybody, and how? Decided before any annotator is looked at."""

from fdr_core.audit.coins import coins_per_annotator, effective_coins
from fdr_core.audit.decision import FEWEST_TO_COMPARE, METHODS, SIDES, Audit, audit
from fdr_core.audit.figures import FEW_COINS, AuditInput
from fdr_core.audit.look import PLACED

__all__ = [
    "FEWEST_TO_COMPARE",
    "FEW_COINS",
    "METHODS",
    "PLACED",
    "SIDES",
    "Audit",
    "AuditInput",
    "audit",
    "coins_per_annotator",
    "effective_coins",
]
