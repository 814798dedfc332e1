"""Regularisation paths: one method each, one call, one result."""

from __future__ import annotations

from collections.abc import Callable

from fdr_core.errors import ConfigurationError
from fdr_core.paper.paths.iss import iss
from fdr_core.paper.paths.lasso import lasso
from fdr_core.paper.paths.lbi import lbi
from fdr_core.paper.paths.marginal import marginal
from fdr_core.paper.paths.problem import Path, PathProblem, Races

PATHS: dict[str, Callable[..., Path]] = {"lbi": lbi, "iss": iss, "lasso": lasso, "marginal": marginal}


def follow(problem: PathProblem, path: str, *, races: Races | None = None, record: bool = False) -> Path:
    """Follow the named path; ``races`` closes decided races and stops early, ``record`` keeps gamma for plotting."""
    if path not in PATHS:
        raise ConfigurationError(f"path was {path!r}; expected one of {', '.join(sorted(PATHS))}")
    return PATHS[path](problem, races=races, record=record)


__all__ = ["PATHS", "Path", "PathProblem", "Races", "follow", "iss", "lasso", "lbi", "marginal"]
