"""The peers' speed; a module of its own, so that these cells do not depend on the detection's code."""

from __future__ import annotations

from typing import Any

from benchmarks.results import peers, speed


def measure(method: str, shape: list[int], limit: float) -> dict[str, Any]:
    """Measure one peer on one shape."""
    return speed.measure(f"{peers.__name__}:{peers.PEERS[method].__name__}", shape, limit)
