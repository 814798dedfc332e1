"""`evenhand`: the commands of `fdr_core.commands` and `evenhand.commands`, loaded when they are used."""

import difflib
import importlib
import os
import sys
from typing import Any

import click

from fdr_core import __version__
from fdr_core.commands import COMMANDS as OF_LIBRARY

#: The service's commands, each with its line of `evenhand --help`.
OF_SERVICE = {
    "annotator": "Hand out or erase what is stored about one annotator.",
    "backup": "Write the whole database into FILE.",
    "connect": "Connect a Label Studio project to this service.",
    "disconnect": "Remove this service from a Label Studio project.",
    "report": "Write the report of a project's run.",
    "restore": "Replace the database with a backup.",
    "run": "Ask the worker for a run of a project now.",
    "serve": "Run the web server and the worker.",
    "settings": "Show the settings in force, secrets hidden.",
    "status": "Show projects, last events and pulls, the queue and open problems.",
    "sync": "Pull connected projects now and say what was repaired.",
    "undo": "List what followed confirmed flags, or take it back.",
    "users": "Manage who may log in.",
    "worker": "Run the worker alone.",
}
#: The modules that hold more than one command.
TOGETHER = {
    **dict.fromkeys(("annotator", "users"), "people"),
    **dict.fromkeys(("backup", "restore", "serve", "settings", "status", "worker"), "operate"),
    **dict.fromkeys(("disconnect", "report", "run", "sync", "undo"), "projects"),
}
COMMANDS = dict(sorted({**OF_LIBRARY, **OF_SERVICE}.items()))
#: What somebody wants, with the commands for it.
GROUPS = {
    "Judge a file": ("analyze", "doctor", "gate", "export-preferences", "selftest", "simulate"),
    "Connect a project of Label Studio": ("prepare", "connect", "run", "sync", "report", "undo", "disconnect"),
    "Serve": ("serve", "worker", "status", "settings"),
    "Administer": ("users", "annotator", "backup", "restore"),
}
#: Of Ctrl-C and of a reader that went away (`| head`): 128 and the number of the signal.
INTERRUPTED, UNREAD = 130, 141
#: Every exit code with its meaning.
EXIT_CODES = {
    0: "done; of `gate`: every judge passes",
    1: "no: a judge fails, a check of `doctor` fails or nobody can be judged, somebody is flagged "
    "(`analyze --fail-on-flags`), a run failed, or Label Studio or the database refused",
    2: "bad input: arguments, a file, the environment; the message says what to change",
    3: "of `gate`: undecided, more comparisons are needed",
    INTERRUPTED: "stopped by Ctrl-C",
    UNREAD: "whoever read the output stopped reading, as `head` does",
}
#: What brings a module that a plain `pip install evenhand` does not.
EXTRAS = {
    **dict.fromkeys(("alembic", "flask", "gunicorn", "itsdangerous", "prometheus_client", "psycopg"), "server"),
    **dict.fromkeys(("pydantic", "requests", "sqlalchemy", "werkzeug"), "server"),
    **dict.fromkeys(("duckdb", "ibis"), "engines"),
    "cvxpy": "paper",
    "openpyxl": "files",
    "pyarrow": "files",
    "matplotlib": "plot",
    "pyspark": "spark",
}


class MissingExtra(click.ClickException):
    """A command needs something that is not installed."""

    exit_code = 2


class LazyGroup(click.Group):
    """A group that imports a command only when it is asked for, and says which extra it wants."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        # Before numpy is loaded: the matrices here are small, and threads that wait for each other on a busy machine
        # made `analyze` twenty times slower.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        try:
            package = "fdr_core" if cmd_name in OF_LIBRARY else "evenhand"
            found: Any = getattr(importlib.import_module(f"{package}.commands.{TOGETHER.get(name, name)}"), name)
        except ModuleNotFoundError as error:
            raise missing(cmd_name, error) from error
        return found if isinstance(found, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; some need an extra for a part of their work only. Ctrl-C ends it as shells expect."""
        if "NO_COLOR" in os.environ:
            ctx.color = False
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # What is left in the buffer must not fail again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(UNREAD) from None
        except ModuleNotFoundError as error:
            raise missing(ctx.invoked_subcommand or "", error) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by what they are for, without importing one."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name]) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the command that a mistyped one may have meant."""
        near = difflib.get_close_matches(args[0], COMMANDS, n=1) if args and args[0] not in COMMANDS else []
        if near and not args[0].startswith("-"):
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx)
        return super().resolve_command(ctx, args)


def missing(command: str, error: ModuleNotFoundError) -> Exception:
    """What to say where a module is not installed: the extra that brings it, or the error itself."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return error
    return MissingExtra(
        f"`evenhand {command}` needs {module}, which is not installed; "
        f"install it with: pip install 'evenhand[{EXTRAS[module]}]'"
    )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="evenhand")
@click.pass_context
def main(context: click.Context) -> None:
    """
    Find annotators who click a side instead of judging, live in Label Studio or in a file.

    \b
    Examples:
      evenhand analyze answers.csv
      evenhand serve
    """
    context.obj = lambda **how: importlib.import_module("evenhand.commands._service").examine_service(**how)


if __name__ == "__main__":
    main()
