"""Loopback ports for servers that a program starts for itself."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a loopback port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
