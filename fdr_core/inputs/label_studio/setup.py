"""A labelling setup: the controls that can hold a preference, and which data fields they show."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from fdr_core.errors import ConfigurationError

ControlType = Literal["pairwise", "choices", "rating", "number", "ranker"]
TAGS: Mapping[str, ControlType] = {
    "Pairwise": "pairwise",
    "Choices": "choices",
    "Rating": "rating",
    "Number": "number",
    "Ranker": "ranker",
}
MAX_LENGTH = 1_000_000


@dataclass(frozen=True)
class Repeat:
    """A part of the page that is shown once for every entry of a list; `flag` stands for the entry's number."""

    field: str
    flag: str


@dataclass(frozen=True)
class Control:
    """
    A tag that can hold a preference.

    Attributes
    ----------
    name, type, to_name : as in the label config.
    answers : texts that it offers, as they are stored.
    scale : lowest and highest value of a Rating or Number, where it is known.
    list_field : data field of the choices that each task brings along.
    buckets : the groups that a Ranker sorts into.
    per_region : whether every region of a task is asked about on its own.
    repeat : the list over whose entries the control is repeated.
    is_complete : whether `answers` are all that it offers, and not only those that were seen.
    """

    name: str
    type: ControlType
    to_name: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None
    list_field: str | None = None
    buckets: tuple[str, ...] = ()
    per_region: bool = False
    repeat: Repeat | None = None
    is_complete: bool = True


@dataclass(frozen=True)
class Setup:
    """What we need of a labelling setup: controls, the fields of objects by name, and all names in use."""

    controls: tuple[Control, ...]
    fields: Mapping[str, str] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    lists: Mapping[str, str] = field(default_factory=dict)

    def control(self, name: str) -> Control | None:
        """The first control of this name."""
        return next((control for control in self.controls if control.name == name), None)


@lru_cache(maxsize=256)
def parse_label_config(xml: str) -> Setup:
    """Parse a label config; raises ConfigurationError if it is not plain XML."""
    if len(xml) > MAX_LENGTH:
        raise ConfigurationError(f"the label config has {len(xml)} characters; at most {MAX_LENGTH} are read")
    if "<!DOCTYPE" in xml or "<!ENTITY" in xml:
        raise ConfigurationError("the label config declares a DOCTYPE or entities; remove the declaration")
    try:
        root = ElementTree.fromstring(xml)  # noqa: S314 - declarations, the only dangerous part, are refused above
    except (ElementTree.ParseError, ValueError) as error:
        raise ConfigurationError(f"the label config is not valid XML: {error}") from error
    controls: list[Control] = []
    fields: dict[str, str] = {}
    lists: dict[str, str] = {}
    names: set[str] = set()
    for element, repeat in _elements(root):
        name = element.get("name")
        if not name or not isinstance(element.tag, str):
            continue
        names.add(name)
        value = element.get("value") or ""
        if element.tag in TAGS and (element.get("toName") or element.tag == "Ranker"):
            controls.append(_control(element, name, repeat))
        elif value.startswith("$"):
            (lists if element.tag == "List" else fields)[name] = value[1:]
    return Setup(tuple(controls), fields, frozenset(names), lists)


def _elements(root: ElementTree.Element) -> list[tuple[ElementTree.Element, Repeat | None]]:
    """Every element in order, with the Repeater it stands in; a stack, since strangers nest as deeply as they like."""
    found: list[tuple[ElementTree.Element, Repeat | None]] = []
    waiting: list[tuple[ElementTree.Element, Repeat | None]] = [(root, None)]
    while waiting:
        element, repeat = waiting.pop()
        if element.tag == "Repeater":
            over = (element.get("on") or "").removeprefix("$")
            repeat = Repeat(over, element.get("indexFlag") or "{{idx}}")
        found.append((element, repeat))
        waiting.extend((child, repeat) for child in reversed(element))
    return found


def _control(element: ElementTree.Element, name: str, repeat: Repeat | None) -> Control:
    """A control with the answers it offers."""
    kind = TAGS[element.tag]
    value = element.get("value") or ""
    answers: tuple[str, ...] = ()
    scale = None
    if kind == "pairwise":
        answers = ("left", "right")
    elif kind == "choices":
        texts = (choice.get("alias") or choice.get("value") for choice in element.iter("Choice"))
        answers = tuple(text for text in texts if text)
    elif kind == "rating":
        highest = element.get("maxRating") or "5"
        scale = (1.0, float(min(int(highest[:4]), 100))) if highest.isdecimal() and int(highest[:4]) > 1 else None
        answers = tuple(str(step) for step in range(1, int(scale[1]) + 1)) if scale else ()
    elif kind == "number":
        scale = _bounds(element.get("min"), element.get("max"))
    return Control(
        name=name,
        type=kind,
        to_name=tuple(part.strip() for part in (element.get("toName") or "").split(",") if part.strip()),
        answers=answers,
        scale=scale,
        list_field=value[1:] if kind == "choices" and value.startswith("$") else None,
        buckets=tuple(b for bucket in element.iter("Bucket") if (b := bucket.get("name"))),
        per_region=(element.get("perRegion") or "").lower() == "true",
        repeat=repeat,
    )


def _bounds(low: str | None, high: str | None) -> tuple[float, float] | None:
    """A scale of two numbers, where both are given."""
    numbers = [float(text) for text in (low, high) if text and re.fullmatch(r"[+-]?\d{1,12}(\.\d+)?", text)]
    return (numbers[0], numbers[1]) if len(numbers) == 2 and numbers[0] < numbers[1] else None
