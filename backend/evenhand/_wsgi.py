"""What a WSGI server loads: `app`, made from the environment on first use."""

import os
from typing import Any

from evenhand.app import create_app
from evenhand.logs import configure_logging
from evenhand.settings import Settings


def __getattr__(name: str) -> Any:
    """Make the app when a server asks for it, so that importing this module does nothing."""
    if name != "app":
        raise AttributeError(name)
    settings = Settings.from_env(os.environ)
    configure_logging(settings.log_level, settings.secrets())
    globals()["app"] = create_app(settings)
    return globals()["app"]
