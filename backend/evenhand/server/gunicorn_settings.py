"""Gunicorn's settings that are the same everywhere; address and sizes come from the command line."""

import os
from typing import Any

from prometheus_client import multiprocess

from evenhand.server.bounded_worker import wait_for_requests
from evenhand.settings import Settings

_settings = Settings.from_env(os.environ)

worker_class = "evenhand.server.bounded_worker.BoundedWorker"
when_ready = wait_for_requests
# Connections the kernel keeps for us; refusing is quick, and one that finds the queue full comes back a second later.
backlog = 2048
# More than the bounds of our own on connections that arrive, wait or end: accepting never stops because of those.
worker_connections = 2000
timeout = 60
graceful_timeout = 5
keepalive = 5
limit_request_line = 8190
limit_request_fields = 100
accesslog = None
# The control socket is a file others on the machine could open; signals are all we use.
control_socket_disable = True
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "evenhand.logs.JsonFormatter", "secrets": list(_settings.secrets())}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"level": _settings.log_level, "handlers": ["console"]},
    "loggers": {
        "alembic": {"level": "WARNING"},
        "gunicorn.error": {"level": "INFO", "handlers": [], "propagate": True},
        "gunicorn.access": {"level": "WARNING", "handlers": [], "propagate": True},
    },
}


def child_exit(_server: Any, worker: Any) -> None:
    """Forget the metrics of a web process that ended."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # prometheus_client leaves it untyped
