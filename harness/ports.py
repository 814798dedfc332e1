"""Loopback ports for servers that a program starts for itself.

A server that can be handed an open socket is handed one. For those that only take a number there are ports below the
range from which the system gives out its own, so that no connection of anybody can take one in the meantime.
"""

from __future__ import annotations

import random
import socket
from contextlib import suppress

NUMBERED = range(10_000, 32_000)


def listening() -> socket.socket:
    """Return a socket that listens on a loopback port of its own."""
    return socket.create_server(("127.0.0.1", 0), backlog=256)


def free_port() -> int:
    """Return a loopback port nobody listens on, for a server that cannot be handed a socket."""
    while True:
        port = random.SystemRandom().choice(NUMBERED)
        with suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
