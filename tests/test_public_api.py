"""The public names are a decision: listed once, in order, each one there."""

from __future__ import annotations

import fdr_core


def test_public_names_are_sorted_and_unique() -> None:
    assert list(fdr_core.__all__) == sorted(set(fdr_core.__all__))


def test_public_names_all_exist_and_are_documented() -> None:
    undocumented = [
        name for name in fdr_core.__all__ if not name.startswith("__") and not getattr(fdr_core, name).__doc__
    ]
    assert undocumented == []


def test_public_names_hold_what_the_manual_uses() -> None:
    assert {"Comparisons", "Detection", "FdrCoreError", "SufficientStatistics", "detect"} <= set(fdr_core.__all__)


def test_version_is_one_version() -> None:
    from importlib.metadata import version

    assert fdr_core.__version__ == version("evenhand")
