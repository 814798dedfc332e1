"""Write the tables of the manual from where they belong: `python scripts/settings_table.py [--check]`."""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from textwrap import fill, wrap

import click
from click.testing import CliRunner
from evenhand.cli import COMMANDS, EXIT_CODES, GROUPS
from evenhand.cli import main as program
from evenhand.settings import TABLE, Settings
from evenhand.store import open_store
from evenhand.web.auth import Right, rights

from fdr_core import __version__
from fdr_core.option import Option
from fdr_core.options import LBI_OPTIONS, OPTIONS

ROOT = Path(__file__).resolve().parent.parent
#: As wide as lines of documents are.
WIDTH = 119


#: What reading is called, by the first part of an address.
READS = {"api": "read by programs", "ui": "read as a page"}


@dataclass(frozen=True)
class Written:
    """A document that holds a table between two marks."""

    path: Path
    name: str
    table: Callable[[], str]

    @property
    def current(self) -> str:
        """The document as it is."""
        return self.path.read_text(encoding="utf-8")

    @property
    def renewed(self) -> str:
        """The document with its table written anew."""
        start = f"<!-- {self.name}: written by scripts/settings_table.py -->\n"
        end = f"<!-- end of {self.name} -->"
        before, rest = self.current.split(start, 1)
        return before + start + self.table() + end + rest.split(end, 1)[1]


def settings_table() -> str:
    """Return the settings of the service as a Markdown table."""
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for setting in TABLE:
        default = f"`{setting.default}`" if setting.default else ""
        meaning = setting.help.replace("|", "\\|")
        older = f" Older name: `{setting.older_name}`." if setting.older_name else ""
        secret = " (secret)" if setting.secret else ""
        rows.append(f"| `{setting.name}`{secret} | {default} | {meaning}{older} |")
    return "\n".join(rows) + "\n"


def options_table(options: tuple[Option, ...]) -> str:
    """Return options as a Markdown table."""
    rows = ["| option | default | takes | meaning |", "|---|---|---|---|"]
    for option in options:
        default = "" if option.default is None else f"`{option.default}`"
        rows.append(f"| `{option.name}` | {default} | {_takes(option)} | {option.words} |")
    return "\n".join(rows) + "\n"


def _takes(option: Option) -> str:
    if not option.choices:
        return option.expected
    listed = ", ".join(f"`{value}` ({words})" for value, words in option.choices.items())
    return f"nothing, or {listed}" if option.may_be_empty else listed


def rights_table() -> str:
    """Return who may call which route as a Markdown table."""
    from evenhand.app import create_app

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=f"sqlite:///{folder}/evenhand.db", model_dir=Path(folder))
        store = open_store(settings)
        found = list(rights(create_app(settings, store)))
        store.close()
    rows = ["| who | route and method | what |", "|---|---|---|"]
    for (who, what), routes in _alike(found).items():
        rows.append(f"| {', '.join(who)} | {', '.join(routes)} | {what} |")
    return "\n".join(rows) + "\n"


def _alike(found: Iterable[Right]) -> dict[tuple[tuple[str, ...], str], list[str]]:
    """The routes that the same callers may read, by callers; those that change something, by what they do."""
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for right in sorted(found, key=lambda right: (-len(right.who), right.who, right.method)):
        what = READS.get(right.route.split("/")[1], "read") if right.method == "GET" else right.what
        groups.setdefault((right.who, what), []).append(f"`{right.method} {right.route}`")
    return groups


#: What the pages show, one after the other in one folder.
CROWD = "evenhand simulate crowd.csv"
SHOWN = ("evenhand doctor crowd.csv", "evenhand gate crowd.csv --judge 22 --judge 0", "evenhand gate --plan")


def found(path: str) -> click.Command:
    """The command of that name, `users add` included."""
    command: click.Command = program
    for name in path.split():
        assert isinstance(command, click.Group)
        inner = command.get_command(click.Context(command), name)
        assert inner is not None, path
        command = inner
    return command


def paths(name: str) -> Iterator[str]:
    """A command's name, or those of the commands in it."""
    command = found(name)
    if isinstance(command, click.Group):
        yield from (f"{name} {inner}" for inner in command.list_commands(click.Context(command)))
    else:
        yield name


def said(command: click.Command) -> tuple[str, list[str]]:
    """What a command's help says, and its examples."""
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b\nExamples:\n")
    return text.strip(), [line.strip() for line in examples.splitlines() if line.strip()]


def options(command: click.Command) -> list[tuple[str, str]]:
    """Options as they are typed, each with its help."""
    context = click.Context(command)
    records = (one.get_help_record(context) for one in command.params if isinstance(one, click.Option))
    return [record for record in records if record]


def shared() -> dict[str, str]:
    """The options that three commands or more take, each told of on a page of its own."""
    every = [option for path in chain(*(paths(name) for name in COMMANDS)) for option in options(found(path))]
    return {name: words for name, words in every if every.count((name, words)) > 2}


def usage(path: str) -> str:
    """How a command is called."""
    pieces = found(path).collect_usage_pieces(click.Context(found(path)))
    return " ".join(["evenhand", path, *(piece for piece in pieces if piece != "[OPTIONS]")])


def reference() -> str:
    """Every command by what it is for: how it is called, its first sentence, its own options, its examples."""
    common = shared()
    lines = []
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for path in chain(*(paths(name) for name in names)):
            command = found(path)
            text, examples = said(command)
            own = [re.split(r"[ ,/]", name)[0] for name, words in options(command) if common.get(name) != words]
            first = re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]
            whole = f"**`{usage(path)}`** {first[0].lower()}{first[1:]}"
            whole += f" Own options: {', '.join(f'`{name}`' for name in own)}." if own else ""
            lines += [*wrap(whole, WIDTH, break_on_hyphens=False), "", "```text", *examples, "```", ""]
    return "\n".join(lines)


def exit_codes() -> str:
    """Every exit code with its meaning, as a table."""
    rows = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    return "\n".join(["| code | means |", "|---|---|", *rows]) + "\n"


def printed(*commands: str) -> list[str]:
    """What commands print, run for it in a folder of their own."""
    runner = CliRunner()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        texts = [runner.invoke(program, command.split()[1:]).stdout for command in (CROWD, *commands)][1:]
    return [
        "\n".join(line if line.startswith("|") else fill(line, WIDTH) for line in text.splitlines()) for text in texts
    ]


def outputs() -> str:
    """Some commands with what they print."""
    blocks = [f"$ {command}\n{text}\n" for command, text in zip(SHOWN, printed(*SHOWN), strict=True)]
    return "```text\n" + "\n".join(blocks) + "```\n"


def report() -> str:
    """What `analyze` prints of a crowd, without the rows in the middle."""
    lines = printed("evenhand analyze crowd.csv")[0].splitlines()
    return "\n".join(["```text", *lines[:10], "…", *lines[-5:], "```"]) + "\n"


def manual() -> str:
    """The manual page, for `man`."""
    lines = [f'.TH EVENHAND 1 "" "Evenhand {__version__}"', ".nh", ".ad l", ".SH NAME"]
    lines += ["evenhand \\- find annotators who click a side instead of judging", ".SH SYNOPSIS", ".B evenhand"]
    lines += ["COMMAND [OPTIONS] [ARGUMENTS]"]
    for title, names in GROUPS.items():
        lines.append(f".SH {title.upper()}")
        for path in chain(*(paths(name) for name in names)):
            text, examples = said(found(path))
            lines += [f".SS {_roff(usage(path))}", *map(_roff, text.splitlines())]
            for name, words in options(found(path)):
                lines += [".TP", f".B {_roff(name)}", _roff(words)]
            lines += [".PP", "Examples:", ".nf", *(_roff(f"  {example}") for example in examples), ".fi"]
    lines += [".SH EXIT STATUS", *chain(*((".TP", f".B {code}", _roff(words)) for code, words in EXIT_CODES.items()))]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """A line as roff takes it: nothing in it is a request."""
    text = text.strip("\n").replace("\\", "\\e").replace("-", "\\-").replace("|", "|\\:")
    return f"\\&{text}" if text.startswith((".", "'")) else text or ".PP"


@dataclass(frozen=True)
class Whole(Written):
    """A file that is made as a whole."""

    @property
    def renewed(self) -> str:
        """The file written anew."""
        return self.table()


DOCUMENTS = (
    Written(ROOT / "docs" / "options.md", "settings", settings_table),
    Written(ROOT / "docs" / "options.md", "options", partial(options_table, OPTIONS)),
    Written(ROOT / "docs" / "options.md", "lbi", partial(options_table, LBI_OPTIONS)),
    Written(ROOT / "docs" / "rights.md", "rights", rights_table),
    Written(ROOT / "docs" / "commands.md", "commands", reference),
    Written(ROOT / "docs" / "commands.md", "outputs", outputs),
    Written(ROOT / "docs" / "commands.md", "codes", exit_codes),
    Written(ROOT / "docs" / "reading-a-report.md", "report", report),
    Whole(ROOT / "docs" / "evenhand.1", "manual", manual),
)


def main(arguments: list[str]) -> int:
    """Rewrite the documents, or with --check only say whether they are current."""
    stale = [document for document in DOCUMENTS if document.renewed != document.current]
    for document in stale:
        if "--check" in arguments:
            print(f"{document.path.name} is not current; run python scripts/settings_table.py", file=sys.stderr)
        else:
            document.path.write_text(document.renewed, encoding="utf-8")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
