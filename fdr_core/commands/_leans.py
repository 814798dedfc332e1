"""Options that ask about leans beyond position, shared by the commands that answer."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from fdr_core import Comparisons, InputError
from fdr_core.other_leans import AGREEMENT, Feature, LeanList, OwnFamily, detect_leans
from fdr_core.other_leans.taste import without_taste

Command = Callable[..., Any]
_OWN_FAMILY = "own family"


@dataclass(frozen=True)
class Asked:
    """Which leans are asked about, and what tells quality."""

    leans: tuple[str | Feature, ...] = ()
    gold: str | None = None
    reference: tuple[str, ...] = ()
    scope: str = "each"
    least: float = 0.1

    def lists(self, comparisons: Comparisons | None, **options: Any) -> dict[str, LeanList]:
        """Answer on answers that are in memory."""
        if comparisons is None:
            raise InputError("leans beyond position need the answers themselves; give one file, with --engine memory")
        labels = {str(label): label for label in comparisons.annotators}
        reference = [labels.get(name, name) for name in self.reference]
        given: dict[str, Any] = {"gold": self.gold, "reference": reference, "scope": self.scope, "least": self.least}
        found = detect_leans(comparisons, self.leans, with_position=False, **{**given, **options})
        return {name: one for name, one in found.items() if isinstance(one, LeanList)}

    def report(self, comparisons: Comparisons | None, *, q: float) -> dict[str, Any]:
        """What a report says of them: the lists, and the ranking without the crowd's taste."""
        lists = self.lists(comparisons, q=q)
        features = [lean for lean in self.leans if lean != AGREEMENT]
        taste = without_taste(comparisons, features) if comparisons is not None and features else None
        return {"leans": lists, "taste": taste}


def lean_options(command: Command) -> Command:
    """Add the options, handed over as one argument `asked`."""
    options = (
        click.option(
            "--leans",
            "--lean",
            default="",
            help="Leans beyond position, by commas: length, format, newer, own family, agreement, or the name of a "
            "column of numbers (x_NAME, or NAME_left and NAME_right).",
        ),
        click.option("--gold", help="Column with the better item's side; ground_truth: answers marked so."),
        click.option("--reference", multiple=True, help="Annotator whose answers tell quality; repeat for more."),
        click.option("--family", multiple=True, metavar="NAME=FAMILY", help="Family of an annotator or item."),
        click.option(
            "--scope",
            type=click.Choice(["each", "all"]),
            default="each",
            show_default=True,
            help="Whether q holds for each lean's list, or for all of them together.",
        ),
        click.option(
            "--least",
            type=click.FloatRange(min=0),
            default=0.1,
            show_default=True,
            help="Smallest lean worth a flag: log odds at a typical difference.",
        ),
    )

    @functools.wraps(command)
    def gathered(
        *, leans: str, gold: str | None, reference: Any, family: Any, scope: str, least: float, **others: Any
    ) -> Any:
        parts = [pair.partition("=") for pair in family]
        if any(not name or not of for name, _, of in parts):
            raise click.BadParameter("--family takes NAME=FAMILY, such as gpt-4o=openai")
        families = OwnFamily(mapping={name: of for name, _, of in parts})
        names = [name.strip() for name in leans.split(",") if name.strip()]
        wanted = tuple(families if name == _OWN_FAMILY else name for name in names)
        asked = Asked(wanted, gold, reference, scope, least)
        if "reading" in others and (wanted or gold):
            others["reading"] = {**others["reading"], "features": True}
        return command(**others, asked=asked)

    added: Command = gathered
    for option in reversed(options):
        added = option(added)
    return added
