"""Write README's settings table from the one in the code: `python scripts/settings_table.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

from backend.settings import TABLE

README = Path(__file__).resolve().parent.parent / "README.md"
START = "<!-- settings: written by scripts/settings_table.py -->\n"
END = "<!-- end of settings -->"


def table() -> str:
    """Return the settings as a Markdown table."""
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for setting in TABLE:
        default = f"`{setting.default}`" if setting.default else ""
        meaning = setting.help.replace("|", "\\|")
        older = f" Older name: `{setting.older_name}`." if setting.older_name else ""
        secret = " (secret)" if setting.secret else ""
        rows.append(f"| `{setting.name}`{secret} | {default} | {meaning}{older} |")
    return "\n".join(rows) + "\n"


def renewed(text: str) -> str:
    """Return a document with the table between its two marks written anew."""
    before, rest = text.split(START, 1)
    return before + START + table() + END + rest.split(END, 1)[1]


def main(arguments: list[str]) -> int:
    """Rewrite README, or with --check only say whether it is current."""
    old = README.read_text(encoding="utf-8")
    new = renewed(old)
    if "--check" in arguments:
        if new != old:
            print("README's settings table is not current; run python scripts/settings_table.py", file=sys.stderr)
        return int(new != old)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
