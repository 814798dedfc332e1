"""`evenhand`: one command per module of `backend.commands`, loaded when it is used."""

import importlib
import importlib.util
from typing import Any

import click

from backend.version import product_version

COMMANDS = (
    "analyze",
    "annotator",
    "backup",
    "connect",
    "doctor",
    "prepare",
    "report",
    "restore",
    "run",
    "selftest",
    "serve",
    "settings",
    "simulate",
    "status",
    "sync",
    "users",
    "worker",
)


class LazyGroup(click.Group):
    """A group that imports a command only when it is asked for, and leaves out those not installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command whose module exists."""
        return [name for name in COMMANDS if _module_exists(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS or not _module_exists(cmd_name):
            return None
        found: Any = getattr(importlib.import_module(f"backend.commands.{cmd_name}"), cmd_name)
        return found if isinstance(found, click.Command) else None


def _module_exists(name: str) -> bool:
    """Whether a command's module is installed."""
    return importlib.util.find_spec(f"backend.commands.{name}") is not None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(product_version(), prog_name="evenhand")
def main() -> None:
    """Find annotators who click a side instead of judging, live in Label Studio or in a file."""


if __name__ == "__main__":
    main()
