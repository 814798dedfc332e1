"""Which control, which fields, which outcome: a project's settings resolved against its label config."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from evenhand.errors import UnusableValueError
from evenhand.label_studio.review_fields import is_review_field
from evenhand.label_studio.side_words import outcomes_of, paired_fields
from evenhand.project_config import ProjectConfig

ControlType = Literal["pairwise", "choices", "rating"]
TAGS: Mapping[str, ControlType] = {"Pairwise": "pairwise", "Choices": "choices", "Rating": "rating"}
#: Tags that order more than two items, or name them otherwise.
NOT_READ = ("Ranker", "List")
SUPPORTED = (
    "supported are Pairwise, Choices with a text for either side (and a tie), and one Rating or Choices whose answers "
    "'outcomes' maps to [-1, 1]"
)
SIDES: Mapping[str, float] = {"left": 1.0, "right": -1.0}
MAX_LENGTH = 1_000_000
# The data field in which `evenhand prepare` records the coin; it is used wherever tasks carry it.
PREPARED_COIN = "evenhand_coin"


@dataclass(frozen=True)
class Control:
    """A tag that can hold a preference."""

    name: str
    type: ControlType
    to_name: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True)
class LabelConfig:
    """What we need of a label config: comparison controls, object fields, all names in use."""

    controls: tuple[Control, ...]
    fields: Mapping[str, str]
    names: frozenset[str]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadControl:
    """A control whose answers are read, and what they mean."""

    name: str
    type: ControlType
    object_name: str
    outcomes: Mapping[str, float]


@dataclass(frozen=True)
class Reading:
    """How annotations of a project are read.

    Of several controls the one that `decides` is judged; without it all are judged together.
    """

    controls: tuple[ReadControl, ...]
    decides: ReadControl | None
    item_left: str
    item_right: str
    coin: str | None
    stratum: str | None
    names: frozenset[str]

    @property
    def control(self) -> str:
        """The names of what is judged, as people read them."""
        return self.decides.name if self.decides else ", ".join(control.name for control in self.controls)

    @property
    def beside(self) -> tuple[ReadControl, ...]:
        """Controls that are read and tested beside the one that decides."""
        return tuple(control for control in self.controls if self.decides and control != self.decides)

    @property
    def words(self) -> str:
        """Which controls are read, and how they are judged."""
        names = " and ".join(f"{control.name!r} ({control.type})" for control in self.controls)
        if len(self.controls) == 1:
            return f"control {names}"
        if self.decides is None:
            return f"controls {names} together (the mean of an annotation's answers counts)"
        return f"controls {names} apart ({self.decides.name!r} decides, every other one is tested beside it)"


@lru_cache(maxsize=256)
def parse_label_config(xml: str) -> LabelConfig:
    """Parse a label config; raises UnusableValueError if it is not plain XML."""
    if len(xml) > MAX_LENGTH:
        raise UnusableValueError(f"the label config has {len(xml)} characters; at most {MAX_LENGTH} are read")
    if "<!DOCTYPE" in xml or "<!ENTITY" in xml:
        raise UnusableValueError("the label config declares a DOCTYPE or entities; remove the declaration")
    try:
        root = ElementTree.fromstring(xml)  # noqa: S314 - declarations, the only dangerous part, are refused above
    except (ElementTree.ParseError, ValueError) as error:
        raise UnusableValueError(f"the label config is not valid XML: {error}") from error
    controls, fields, names, unread = [], {}, set(), []
    for element in root.iter():
        name = element.get("name")
        if not name or not isinstance(element.tag, str):
            continue
        names.add(name)
        if element.tag in TAGS and element.get("toName"):
            controls.append(_control(element, name))
        elif element.tag in NOT_READ:
            unread.append(f"{name} ({element.tag})")
        elif (element.get("value") or "").startswith("$"):
            fields[name] = (element.get("value") or "")[1:]
    return LabelConfig(tuple(controls), fields, frozenset(names), tuple(unread))


def resolve(config: ProjectConfig, label_config: str, task_fields: Collection[str] = ()) -> Reading:
    """Fit the settings to the label config; `task_fields` are the data fields seen in tasks so far."""
    parsed = parse_label_config(label_config)
    controls = _choose_controls(config, parsed)
    left_default, right_default = _default_fields(controls, parsed)
    offered = sorted({*parsed.fields.values(), *task_fields})
    left = _field("item_left", config.item_left or left_default, offered, task_fields)
    right = _field("item_right", config.item_right or right_default, offered, task_fields)
    if left == right:
        raise UnusableValueError(f"item_left and item_right are both {left!r}; offered fields: {', '.join(offered)}")
    for key in ("coin", "stratum"):
        if getattr(config, key):
            _field(key, getattr(config, key), offered, task_fields)
    outcomes = _outcomes(config, controls)
    read = tuple(ReadControl(c.name, c.type, c.to_name[0], outcomes[c.name]) for c in controls)
    deciding = [control for control in read if len(read) == 1 or control.name == config.control]
    return Reading(
        controls=read,
        decides=deciding[0] if deciding else None,
        item_left=left,
        item_right=right,
        coin=config.coin or (PREPARED_COIN if PREPARED_COIN in task_fields else None),
        stratum=config.stratum,
        names=parsed.names,
    )


def other_controls(label_config: str, read: Collection[str]) -> list[str]:
    """Comparison controls that a project has beside those that are read."""
    controls = parse_label_config(label_config).controls
    others = [c for c in controls if c.name not in read and c.type in ("pairwise", "choices")]
    return [c.name for c in others if c.type == "pairwise" or outcomes_of(c.answers)]


def _control(element: ElementTree.Element, name: str) -> Control:
    """A comparison control with the answers it offers."""
    kind = TAGS[element.tag]
    to_name = tuple(part.strip() for part in (element.get("toName") or "").split(",") if part.strip())
    answers: tuple[str, ...] = ("left", "right")
    if kind == "choices":
        choices = (choice.get("alias") or choice.get("value") for choice in element.iter("Choice"))
        answers = tuple(choice for choice in choices if choice)
    if kind == "rating":
        text = element.get("maxRating") or "5"
        answers = tuple(str(step) for step in range(1, min(int(text[:4]), 100) + 1)) if text.isdecimal() else ()
    return Control(name, kind, to_name, answers)


def _choose_controls(config: ProjectConfig, parsed: LabelConfig) -> tuple[Control, ...]:
    """The controls that the settings name, else the first Pairwise, else Choices that speak of both sides."""
    offered = ", ".join(f"{control.name} ({control.type})" for control in parsed.controls) or "none"
    by_name = {control.name: control for control in reversed(parsed.controls)}
    wanted = config.controls or ((config.control,) if config.control else ())
    if config.control and config.control not in wanted:
        raise UnusableValueError(f"control is {config.control!r}; expected one of controls: {', '.join(wanted)}")
    for name in wanted:
        if name not in by_name:
            raise UnusableValueError(f"the label config has no control {name!r}; offered: {offered}")
    if wanted:
        return tuple(by_name[name] for name in wanted)
    for control in parsed.controls:
        if control.type == "pairwise":
            return (control,)
    for control in parsed.controls:
        if control.type == "choices" and outcomes_of(control.answers):
            return (control,)
    raise UnusableValueError(_nothing_to_read(parsed, offered))


def _default_fields(controls: Sequence[Control], parsed: LabelConfig) -> tuple[str | None, str | None]:
    """The data fields of the two items: what all Pairwise show, else two fields whose names differ in their side."""
    shown: dict[tuple[str | None, ...], Control] = {}
    for control in controls:
        if control.type != "pairwise":
            continue
        if len(control.to_name) != 2:
            raise UnusableValueError(
                f"control {control.name!r} points at {len(control.to_name)} objects ({', '.join(control.to_name)}); "
                "a comparison needs two"
            )
        shown.setdefault(tuple(parsed.fields.get(name) for name in control.to_name), control)
    if len(shown) > 1:
        said = "; ".join(f"{control.name!r} shows {', '.join(map(str, pair))}" for pair, control in shown.items())
        raise UnusableValueError(
            f"controls that are read together must show the same two fields in the same order, but {said}; "
            "name one of them in 'control' and leave 'controls' empty"
        )
    for left, right in shown:
        return left, right
    return paired_fields(parsed.fields.values()) or (None, None)


def _nothing_to_read(parsed: LabelConfig, offered: str) -> str:
    """Why no control can be read, in one sentence that names what is supported."""
    ratings = [control.name for control in parsed.controls if control.type == "rating"]
    if parsed.unread:
        return f"rankings are not read ({', '.join(parsed.unread)}); {SUPPORTED}"
    if len(ratings) > 1:
        return f"ratings of each item on its own are not read ({', '.join(ratings)}); {SUPPORTED}"
    return (
        f"the label config has no Pairwise control, and no Choices with left and right (offered: {offered}); "
        "add one, or name a Choices or Rating in 'control' and map its answers in 'outcomes'"
    )


def _field(key: str, name: str | None, offered: list[str], seen: Collection[str]) -> str:
    """A data field; one outside the label config is fine as long as tasks may have it."""
    if name is None:
        raise UnusableValueError(f"{key} is not set and the label config does not tell; offered: {', '.join(offered)}")
    if is_review_field(name):
        raise UnusableValueError(f"{key} is {name!r}, a rank that this service writes; offered: {', '.join(offered)}")
    if seen and name not in offered and name.split(".")[0].split("[")[0] not in offered:
        raise UnusableValueError(f"{key} is {name!r}, which tasks do not have; offered: {', '.join(offered)}")
    return name


def _outcomes(config: ProjectConfig, controls: Sequence[Control]) -> dict[str, Mapping[str, float]]:
    """Answer to outcome by control; for Choices named left, right and tie the map is known."""
    given = config.outcomes
    if given is None:
        return {control.name: _known_outcomes(control) for control in controls}
    if not given or not any(given.values()):
        raise UnusableValueError("outcomes maps no answer to a side; give at least one a value other than 0")
    limited = [control for control in controls if control.type != "pairwise" and control.answers]
    offered = list(dict.fromkeys(answer for control in limited for answer in control.answers))
    wrong = sorted(set(given) - set(offered))
    if wrong and len(limited) == len(controls):
        named = ", ".join(map(repr, wrong))
        raise UnusableValueError(f"outcomes names {named}; offered answers: {', '.join(offered)}")
    return {control.name: _own_outcomes(control, given, is_only=len(controls) == 1) for control in controls}


def _own_outcomes(control: Control, given: Mapping[str, float], *, is_only: bool) -> Mapping[str, float]:
    """What the settings say about the answers of one control, else what is known of them."""
    if control.type == "pairwise":
        return {**SIDES, **given}
    if is_only or not control.answers:
        return dict(given)
    own = {answer: outcome for answer, outcome in given.items() if answer in control.answers}
    return own if any(own.values()) else _known_outcomes(control)


def _known_outcomes(control: Control) -> Mapping[str, float]:
    """What a control's answers mean where the settings do not say it."""
    if control.type == "pairwise":
        return SIDES
    guessed = outcomes_of(control.answers) if control.type == "choices" else None
    if guessed is not None:
        return guessed
    raise UnusableValueError(
        f"control {control.name!r} needs 'outcomes', a map from its answers ({', '.join(control.answers)}) to [-1, 1]"
    )
