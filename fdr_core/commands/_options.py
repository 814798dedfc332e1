"""Options that several commands take: of detection, formats and leans beyond position."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fdr_core.errors import ConfigurationError, InputError
from fdr_core.inputs import MAPPABLE, MOST_BYTES, MOST_ROWS
from fdr_core.option import Option as DetectOption
from fdr_core.options import BY_NAME, LBI_WORDS
from fdr_core.paper.knockoff_lbi import KnockoffLBI

if TYPE_CHECKING:
    from fdr_core import Comparisons
    from fdr_core.other_leans import Feature, LeanList

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def _option(option: DetectOption) -> Option:
    """The command-line form of an option of `detect`."""
    name = f"--{option.name.replace('_', '-')}"
    shows = option.default is not None
    return click.option(name, type=_type(option), default=option.default, show_default=shows, help=option.words)


def _type(option: DetectOption) -> click.ParamType[Any]:
    """What click checks before anything is read."""
    if option.choices:
        return click.Choice(tuple(option.choices), case_sensitive=False)
    if option.is_whole:
        return click.IntRange(int(option.low), None if math.isinf(option.high) else int(option.high))
    is_open = option.excludes_bounds
    return click.FloatRange(option.low, option.high, min_open=is_open, max_open=is_open)


def _parse_lbi(_context: click.Context, _option: click.Parameter, value: str) -> KnockoffLBI | None:
    """Read the paper's method."""
    try:
        return KnockoffLBI.parse(value)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


_lbi: Option = click.option("--lbi", default="", callback=_parse_lbi, help=LBI_WORDS)


def detection_options(*names: str) -> Option:
    """Add the named options of `detect`, all of them by default, and hand them over as one argument `detection`."""
    chosen = names or (*BY_NAME, "lbi")

    def add(command: Command) -> Command:
        made = tuple(_lbi if name == "lbi" else _option(BY_NAME[name]) for name in chosen)
        return _with(made, _gathering(command, "detection", chosen))

    return add


def _with(options: tuple[Option, ...], command: Command) -> Command:
    """Apply options so that they are listed in the order written here."""
    for option in reversed(options):
        command = option(command)
    return command


def _gathering(command: Command, name: str, members: tuple[str, ...]) -> Command:
    """Collect several options into one argument."""

    @functools.wraps(command)
    def gathered(**options: Any) -> Any:
        together = {member: options.pop(member) for member in members}
        return command(**options, **{name: together})

    return gathered


#: How a Label Studio export is read: parameters of `Comparisons.from_label_studio`, each with its help.
FIELDS: Mapping[str, str] = {
    "control": "name of the control that holds the answer; new|old where it was renamed.",
    "item_left": "field that names the left item; of a list, the property that names its items.",
    "item_right": "field that names the right item.",
    "coin": "field that names the coin.",
    "stratum": "field that groups the tasks, such as the prompt.",
    "answers": "what answers mean, 'A is worse=right,Same=tie': left, right, tie, both, neither, skip, or -1 to 1.",
    "label_config": "file with the project's label config; the export is then read as the service reads the project.",
}


def format_options(command: Command) -> Command:
    """Add what says how a file is read, handed over as one argument `reading` for `Comparisons.from_file`."""
    options = (
        click.option(
            "--format",
            "format_name",
            default="auto",
            show_default=True,
            callback=_known_format,
            metavar="NAME",
            help="How the file is written, by a name of docs/formats.md; auto looks at its columns.",
        ),
        click.option(
            "--map",
            "mapping",
            multiple=True,
            callback=_parse_mapping,
            metavar="OURS=THEIRS",
            help=f"Name a column or path, as annotator=judge, choice=results[0].winner; ours: {', '.join(MAPPABLE)}.",
        ),
        click.option(
            "--swapped",
            type=click.Path(path_type=Path, exists=True),
            help="A second file with the same pairs, row by row, in the other order.",
        ),
        click.option(
            "--items",
            type=click.Path(path_type=Path, exists=True),
            help="A table with the columns item and class (who wrote it, say): sides are then tested by class too.",
        ),
        click.option(
            "--one-sided",
            is_flag=True,
            help="Answers that all go to one side are meant; otherwise five annotators of whom nobody chose one stop.",
        ),
        click.option(
            "--max-gigabytes",
            type=click.FloatRange(min=0, min_open=True),
            default=MOST_BYTES / 1e9,
            show_default=True,
            help="Largest unpacked file to take into memory.",
        ),
        click.option(
            "--max-rows",
            type=click.IntRange(min=1),
            default=MOST_ROWS,
            show_default=True,
            help="Most rows to take into memory.",
        ),
    )

    @functools.wraps(command)
    def gathered(
        *,
        format_name: str,
        mapping: Any,
        swapped: Path | None,
        items: Path | None,
        one_sided: bool,
        max_gigabytes: float,
        max_rows: int,
        **others: Any,
    ) -> Any:
        from fdr_core.inputs.source import Limits

        limits = Limits(most_bytes=int(max_gigabytes * 1e9), most_rows=max_rows)
        fields = {name: value for name in FIELDS if (value := others.pop(name)) is not None}
        reading = {
            "format": format_name,
            "mapping": mapping,
            "limits": limits,
            "fields": fields,
            "swapped": swapped,
            "items": items,
            "one_sided": one_sided,
        }
        return command(**others, reading=reading)

    added: Command = gathered
    for name, words in reversed(tuple(FIELDS.items())):
        kind = click.Path(path_type=Path, exists=True, dir_okay=False) if name == "label_config" else None
        parse = _parse_answers if name == "answers" else None
        words = words if name == "answers" else f"Label Studio: {words}"
        option = click.option(f"--{name.replace('_', '-')}", name, type=kind, callback=parse, help=words)
        added = option(added)
    for option in reversed(options):
        added = option(added)
    return added


def _known_format(context: click.Context, option: click.Parameter, name: str) -> str:
    """Refuse a format that there is not, and name those that there are."""
    if name == "auto":
        return name
    from fdr_core.inputs.registry import FORMATS

    return click.Choice(["auto", *FORMATS]).convert(name, option, context)


def _parse_answers(_context: click.Context, _option: click.Parameter, value: str | None) -> dict[str, Any] | None:
    """Read ANSWER=MEANING pairs, and refuse a meaning that there is not."""
    if value is None:
        return None
    from fdr_core.inputs.label_studio.words import answers_from

    try:
        return answers_from(value)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


def _parse_mapping(_context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Read OURS=THEIRS pairs."""
    parts = [pair.partition("=") for pair in pairs]
    wrong = next((pair for pair, (ours, _, theirs) in zip(pairs, parts, strict=True) if not ours or not theirs), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} is not a pair; write ours=theirs, such as annotator=judge")
    return {ours.strip(): theirs.strip() for ours, _, theirs in parts}


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
        from fdr_core.other_leans import LeanList, detect_leans

        if comparisons is None:
            raise InputError("leans beyond position need the answers themselves; give one file, with --engine memory")
        labels = {str(label): label for label in comparisons.annotators}
        reference = [labels.get(name, name) for name in self.reference]
        given: dict[str, Any] = {"gold": self.gold, "reference": reference, "scope": self.scope, "least": self.least}
        found = detect_leans(comparisons, self.leans, with_position=False, **{**given, **options})
        return {name: one for name, one in found.items() if isinstance(one, LeanList)}

    def report(self, comparisons: Comparisons | None, *, q: float) -> dict[str, Any]:
        """What a report says of them: the lists, and the ranking without the crowd's taste."""
        from fdr_core.other_leans import AGREEMENT
        from fdr_core.other_leans.features import without_taste

        lists = self.lists(comparisons, q=q)
        features = [lean for lean in self.leans if lean != AGREEMENT]
        taste = without_taste(comparisons, features) if comparisons is not None and features else None
        return {"leans": lists, "taste": taste}


def _family_of(parts: Sequence[tuple[str, str, str]]) -> Feature:
    """The lean to one's own family, by who belongs to which."""
    from fdr_core.other_leans import OwnFamily

    return OwnFamily(mapping={name: of for name, _, of in parts})


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
            type=click.Choice(["each", "all"], case_sensitive=False),
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
        names = [name.strip() for name in leans.split(",") if name.strip()]
        wanted = tuple(_family_of(parts) if name == _OWN_FAMILY else name for name in names)
        asked = Asked(wanted, gold, reference, scope, least)
        if "reading" in others and (wanted or gold):
            others["reading"] = {**others["reading"], "features": True}
        return command(**others, asked=asked)

    added: Command = gathered
    for option in reversed(options):
        added = option(added)
    return added
