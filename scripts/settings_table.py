"""Write the tables of the manual from where they belong: `python scripts/settings_table.py [--check]`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evenhand.settings import TABLE, Settings
from evenhand.store import open_store
from evenhand.web.auth import Right, rights

from fdr_core.option import Option
from fdr_core.options import LBI_OPTIONS, OPTIONS

ROOT = Path(__file__).resolve().parent.parent


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


DOCUMENTS = (
    Written(ROOT / "docs" / "options.md", "settings", settings_table),
    Written(ROOT / "docs" / "options.md", "options", partial(options_table, OPTIONS)),
    Written(ROOT / "docs" / "options.md", "lbi", partial(options_table, LBI_OPTIONS)),
    Written(ROOT / "docs" / "rights.md", "rights", rights_table),
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
