"""How a project's answers are read: which control, which fields, and what every answer means."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fdr_core.errors import ConfigurationError
from fdr_core.inputs.label_studio.setup import Control, ControlType, Repeat, Setup
from fdr_core.inputs.label_studio.words import (
    AnswerMap,
    answer_map,
    meaning_text,
    numbered_names,
    one_pair,
    option_for,
    order_of,
    paired_names,
)

#: Of two items; of several items rated one by one; a ranking of a list; some chosen from a list.
Form = Literal["pair", "scores", "ranking", "choice"]
#: The data field in which `evenhand prepare` records the coin; it is used wherever tasks carry it.
PREPARED_COIN = "evenhand_coin"
#: Fields that Evenhand itself writes into tasks begin so.
OWN_FIELDS = "evenhand_"
#: Lists longer than this are not taken apart into pairs.
MOST_ITEMS = 40
_SHOWN = 12
REMEDY = (
    "read are Pairwise; Choices with a text for either side; a Ranker; one Rating or Number per response; and Choices "
    "among several items. Any other control is read once --control names it and --answers says what its answers mean"
)


@dataclass(frozen=True)
class Wanted:
    """What the owner says of the reading; everything else is guessed."""

    control: str | None = None
    controls: tuple[str, ...] = ()
    item_left: str | None = None
    item_right: str | None = None
    coin: str | None = None
    stratum: str | None = None
    answers: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadControl:
    """A control whose answers are read, and what they mean; `names` are those it has had."""

    name: str
    type: ControlType
    object_name: str
    answers: AnswerMap
    scale: tuple[float, float] | None = None
    per_region: bool = False
    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def outcomes(self) -> Mapping[str, float]:
        """From an answer to a number from -1 (right) to 1 (left)."""
        return self.answers.outcomes


@dataclass(frozen=True)
class Reading:
    """
    How annotations of a project are read.

    Of several controls the one that `decides` is judged; without it all are judged together. `items` are the data
    fields of the items in the order in which they stand; where each task brings its own list, `list_field` names it.
    """

    controls: tuple[ReadControl, ...]
    decides: ReadControl | None
    item_left: str
    item_right: str
    coin: str | None
    stratum: str | None
    names: frozenset[str]
    form: Form = "pair"
    items: tuple[str, ...] = ()
    list_field: str | None = None
    item_property: str | None = None
    repeat: Repeat | None = None
    guesses: tuple[str, ...] = ()

    @property
    def control(self) -> str:
        """The names of what is judged, as people read them."""
        return self.decides.name if self.decides else ", ".join(control.name for control in self.controls)

    @property
    def beside(self) -> tuple[ReadControl, ...]:
        """Controls that are read and tested beside the one that decides."""
        return tuple(control for control in self.controls if self.decides and control != self.decides)

    @property
    def is_one_pair(self) -> bool:
        """Whether every task shows one pair, and every annotation holds one answer about it."""
        is_two = self.form == "pair" or (self.form == "scores" and len(self.items) == 2)
        return is_two and self.repeat is None and not any(control.per_region for control in self.controls)

    @property
    def words(self) -> str:
        """Which controls are read, and how they are judged."""
        names = " and ".join(f"{control.name!r} ({control.type})" for control in self.controls)
        if self.form != "pair":
            how = {
                "scores": "the difference of two responses counts",
                "ranking": "every pair of a ranking counts",
                "choice": "what is chosen stands above what is not",
            }[self.form]
            return f"control{'s' if len(self.controls) > 1 else ''} {names} ({how})"
        if len(self.controls) == 1:
            return f"control {names}"
        if self.decides is None:
            return f"controls {names} together (the mean of an annotation's answers counts)"
        return f"controls {names} apart ({self.decides.name!r} decides, every other one is tested beside it)"

    @property
    def shows(self) -> str:
        """Which fields name the items, as people read them."""
        if self.list_field:
            named = f", named by {self.item_property!r}" if self.item_property else ""
            return f"items {self.list_field!r} in the order of the list{named}"
        if self.form == "pair" or len(self.items) == 2:
            return f"left item {self.item_left!r}, right item {self.item_right!r}"
        return f"items {', '.join(map(repr, self.items))} in this order"


def resolve(wanted: Wanted, setup: Setup, task_fields: Collection[str] = ()) -> Reading:
    """Fit what is wanted to a setup; `task_fields` are the data fields seen in tasks so far.

    Raises ConfigurationError, naming what is offered, where something does not fit or nobody can tell.
    """
    controls = _choose(wanted, setup)
    form = _form(controls, wanted, setup)
    offered = sorted({*setup.fields.values(), *setup.lists.values(), *task_fields})
    seen = task_fields
    for key in ("coin", "stratum"):
        if getattr(wanted, key):
            _field(key, getattr(wanted, key), offered, seen)
    repeats = {control.repeat for control in controls}
    if len(repeats) > 1:
        raise ConfigurationError("controls inside and outside a Repeater cannot be read together; name one in control")
    fields = _Fields(wanted, setup, offered, seen, next(iter(repeats)))
    items, list_field = fields.of(form, controls)
    read, guesses = _read_controls(wanted, controls, form)
    decides = read[0] if len(read) == 1 else next((c for c in read if wanted.control in (c.name, *c.names)), None)
    is_two = form in ("pair", "scores") and len(items) == 2
    return Reading(
        controls=read,
        decides=None if form == "scores" else decides,
        item_left=items[0] if is_two else "",
        item_right=items[1] if is_two else "",
        coin=wanted.coin or (PREPARED_COIN if PREPARED_COIN in task_fields else None),
        stratum=wanted.stratum,
        names=setup.names,
        form=form,
        items=items,
        list_field=list_field,
        item_property=wanted.item_left if list_field else None,
        repeat=next(iter(repeats)),
        guesses=(*guesses, *fields.guesses),
    )


def difference(before: Reading, after: Reading) -> list[str]:
    """What would be read otherwise, in sentences; of answers not on offer before those that are guessed."""
    said: list[str] = []
    if [c.name for c in before.controls] != [c.name for c in after.controls]:
        said.append(f"answers would be taken from {after.control!r} instead of {before.control!r}")
    if (before.form, before.shows) != (after.form, after.shows):
        said.append(f"{after.words} would show {after.shows}; so far {before.words} shows {before.shows}")
    said += [
        f"the {key} would come from {getattr(after, key)!r} instead of {getattr(before, key)!r}"
        for key in ("coin", "stratum")
        if getattr(before, key) != getattr(after, key)
    ]
    for old, new in zip(before.controls, after.controls, strict=False):
        said += _other_meanings(old, new)
        if old.scale != new.scale:
            said.append(f"the scale of {new.name!r} would be {new.scale} instead of {old.scale}")
    return said


def _other_meanings(old: ReadControl, new: ReadControl) -> list[str]:
    """Answers that would mean something else than they do."""
    said = []
    for answer in dict.fromkeys((*old.outcomes, *sorted(old.answers.skips), *new.answers.guessed)):
        is_known = answer in old.outcomes or answer in old.answers.skips
        was, would_be = (_meaning(control.answers, answer) for control in (old, new))
        if was != would_be or (not is_known and answer in new.answers.guessed):
            said.append(
                f"{answer!r} in {new.name!r} would mean {would_be}" + (f" instead of {was}" if is_known else "")
            )
    return said


def _meaning(answers: AnswerMap, answer: str) -> str:
    outcome = answers.read(answer)
    return "nothing that is known" if outcome is None and not answers.is_skip(answer) else meaning_text(outcome)


def renamed_control(before: Setup, after: Setup, name: str) -> str | None:
    """What a control that is gone is called now: the only one of its type that was not there before."""
    gone = before.control(name)
    fresh = [c.name for c in after.controls if gone and c.type == gone.type and c.name not in before.names]
    return fresh[0] if gone and name not in after.names and len(fresh) == 1 else None


def other_controls(setup: Setup, read: Collection[str]) -> list[str]:
    """Comparison controls that a project has beside those that are read."""
    others = [c for c in setup.controls if c.name not in read and _kind(c, setup) in ("pair", "ranking")]
    return [c.name for c in others]


def candidates(setup: Setup) -> list[Control]:
    """Controls that hold a preference between two items by themselves."""
    return [control for control in setup.controls if _kind(control, setup) == "pair"]


def _choose(wanted: Wanted, setup: Setup) -> tuple[Control, ...]:
    """The controls that the owner names, else the first that holds a preference."""
    names = wanted.controls or ((wanted.control,) if wanted.control else ())
    if wanted.control and wanted.control not in names:
        raise ConfigurationError(f"control is {wanted.control!r}; expected one of controls: {', '.join(names)}")
    if names:
        chosen = tuple(_named(name, setup) for name in names)
        group = _rated(setup)
        if len(chosen) == 1 and chosen[0] in group and len(group) > 1 and not _is_mapped(chosen[0], wanted):
            return tuple(group)
        return chosen
    for kind in ("pair", "ranking", "scores", "choice"):
        for control in sorted(setup.controls, key=lambda one: one.type != "pairwise"):
            if _kind(control, setup, wanted) == kind:
                return tuple(_rated(setup)) if kind == "scores" else (control,)
    raise ConfigurationError(_nothing_to_read(setup, wanted))


def _named(name: str, setup: Setup) -> Control:
    """A control by name; `new|old` is one control under the names it has had."""
    parts = [part.strip() for part in name.split("|") if part.strip()]
    found = next((control for part in parts if (control := setup.control(part)) is not None), None)
    if found is None:
        offered = ", ".join(f"{control.name} ({control.type})" for control in setup.controls[:_SHOWN]) or "none"
        raise ConfigurationError(f"the label config has no control {name!r}; offered: {offered}")
    return found


def _kind(control: Control, setup: Setup, wanted: Wanted | None = None) -> Form | None:
    """What a control holds by itself, None where its answers do not say a preference."""
    if control.type == "pairwise":
        return "pair"
    if control.type == "ranker":
        return "ranking"
    if control.type == "choices":
        if control.list_field or _items_by_number(control, setup):
            return "choice"
        found = answer_map(control.answers, wanted.answers if wanted else None)
        is_read = found.has_both_sides or (not control.is_complete and any(found.outcomes.values()))
        return "pair" if is_read and len(found.unknown) <= len(found.outcomes) else None
    return "scores" if control in _rated(setup) else None


def _form(controls: Sequence[Control], wanted: Wanted, setup: Setup) -> Form:
    """The form of several controls together."""
    kinds = {_kind(control, setup, wanted) or "pair" for control in controls}
    if any(_is_mapped(control, wanted) for control in controls):
        kinds = {"pair" if kind == "scores" else kind for kind in kinds}
    if kinds == {"scores"} and len(controls) == 1:
        kinds = {"pair"}
    if len(kinds) > 1:
        listed = ", ".join(f"{control.name} ({control.type})" for control in controls)
        raise ConfigurationError(f"controls of different kinds cannot be read together: {listed}; name one in control")
    return kinds.pop()


def _is_mapped(control: Control, wanted: Wanted) -> bool:
    """Whether the owner says what the answers of this scale mean."""
    return control.type in ("rating", "number") and bool(wanted.answers)


def _rated(setup: Setup) -> list[Control]:
    """The ratings of which each belongs to one item: on objects of their own, or with names that count."""
    scales = [c for c in setup.controls if c.type in ("rating", "number") and not c.per_region and len(c.to_name) == 1]
    shown = [setup.fields.get(control.to_name[0]) for control in scales]
    if len(scales) > 1 and len(set(shown)) == len(scales) and None not in shown:
        return scales
    named = [control.name for control in scales]
    series = numbered_names(named) or list(one_pair(named) or ())
    fields = numbered_names(setup.fields.values()) or list(one_pair(setup.fields.values()) or ())
    return [control for control in scales if control.name in series] if 1 < len(series) == len(fields) else []


def _items_by_number(control: Control, setup: Setup) -> list[str]:
    """The fields that the answers of a control choose among: One, Two and Three, and image1, image2 and image3."""
    if control.type != "choices" or not 3 <= len(control.answers) <= MOST_ITEMS:
        return []
    numbers = [order_of(answer) for answer in control.answers]
    objects = numbered_names(setup.fields) if len(numbered_names(setup.fields)) == len(numbers) else []
    fields = [setup.fields[name] for name in objects] or numbered_names(setup.fields.values())
    expected = list(range(1, len(numbers) + 1))
    # A shipped template says Two twice; the page then shows both as chosen, and so it is read.
    is_series = numbers == expected or (numbers[:-1] == expected[:-1] and numbers[-1] == numbers[-2])
    return fields if is_series and len(fields) == len(numbers) else []


class _Fields:
    """Which data fields hold the items."""

    def __init__(
        self, wanted: Wanted, setup: Setup, offered: list[str], seen: Collection[str], repeat: Repeat | None
    ) -> None:
        self._wanted, self._setup, self._offered, self._seen, self._repeat = wanted, setup, offered, seen, repeat
        self.guesses: list[str] = []

    def of(self, form: Form, controls: Sequence[Control]) -> tuple[tuple[str, ...], str | None]:
        """The items' fields, or the field of the list."""
        if form == "ranking":
            return (), self._list(controls[0])
        if form == "choice":
            if controls[0].list_field:
                return (), controls[0].list_field
            return tuple(_items_by_number(controls[0], self._setup)), None
        if form == "scores":
            return tuple(self._rated(controls)), None
        left, right = self._shown(controls)
        if left is None and right is None and (pair := self._guessed()):
            left, right = pair
        left = self._one("item_left", self._wanted.item_left or left)
        right = self._one("item_right", self._wanted.item_right or right)
        if left == right:
            listed = ", ".join(self._offered)
            raise ConfigurationError(f"item_left and item_right are both {left!r}; offered fields: {listed}")
        return (left, right), None

    def _shown(self, controls: Sequence[Control]) -> tuple[str | None, str | None]:
        """What all Pairwise show."""
        shown: dict[tuple[str | None, ...], Control] = {}
        for control in controls:
            if control.type != "pairwise" or not control.to_name:
                continue
            if len(control.to_name) != 2:
                raise ConfigurationError(
                    f"control {control.name!r} points at {len(control.to_name)} objects "
                    f"({', '.join(control.to_name)}); a comparison needs two"
                )
            shown.setdefault(tuple(self._setup.fields.get(name) for name in control.to_name), control)
        if len(shown) > 1:
            said = "; ".join(f"{control.name!r} shows {', '.join(map(str, pair))}" for pair, control in shown.items())
            raise ConfigurationError(
                f"controls that are read together must show the same two fields in the same order, but {said}; "
                "name one of them in 'control' and leave 'controls' empty"
            )
        return next(((pair[0], pair[1]) for pair in shown), (None, None))

    def _guessed(self) -> tuple[str, str] | None:
        """Two fields that are shown and differ in their side; within a Repeater, those that are repeated."""
        fields = [name for name in self._setup.fields.values() if not self._repeat or self._repeat.flag in name]
        found = one_pair(fields)
        if found is not None and not paired_names(found):
            self.guesses.append(f"the items' fields, {found[0]!r} and {found[1]!r}: no others are shown")
        return found

    def _rated(self, controls: Sequence[Control]) -> list[str]:
        """The field that each rating belongs to."""
        fields = [self._setup.fields.get(control.to_name[0]) if control.to_name else None for control in controls]
        if None in fields or len(set(fields)) < len(fields):
            numbered = numbered_names(self._setup.fields.values()) or list(one_pair(self._setup.fields.values()) or ())
            fields = list(numbered) if len(numbered) == len(controls) else fields
            self.guesses.append("which rating belongs to which response, by their names")
        if len(controls) == 2 and self._wanted.item_left and self._wanted.item_right:
            fields = [self._wanted.item_left, self._wanted.item_right]
        return [self._one("the field of a rated response", name) for name in fields]

    def _list(self, control: Control) -> str:
        """The field of the list that is ranked."""
        lists = self._setup.lists
        found = next((lists[name] for name in control.to_name if name in lists), None)
        if found is None:
            raise ConfigurationError(
                f"the Ranker {control.name!r} points at no List with a value; offered: {', '.join(lists) or 'none'}"
            )
        return found

    def _one(self, key: str, name: str | None) -> str:
        return _field(key, name, self._offered, self._seen)


def _field(key: str, name: str | None, offered: Sequence[str], seen: Collection[str]) -> str:
    """A data field; one outside the label config is fine as long as tasks may have it."""
    listed = ", ".join(list(offered)[:60])
    if name is None:
        raise ConfigurationError(f"{key} is not set and the label config does not tell; offered: {listed}")
    if seen and name not in offered and name.split(".")[0].split("[")[0] not in offered:
        raise ConfigurationError(f"{key} is {name!r}, which tasks do not have; offered: {listed}")
    return name


def _read_controls(
    wanted: Wanted, controls: Sequence[Control], form: Form
) -> tuple[tuple[ReadControl, ...], tuple[str, ...]]:
    """The controls with what their answers mean; raises ConfigurationError where that is not known."""
    asked = wanted.controls or ((wanted.control,) if wanted.control else ())
    read, guesses = [], list[str]()
    for control in controls:
        answers = _answers(control, wanted, is_only=len(controls) == 1) if form == "pair" else AnswerMap({})
        name = next((name for name in asked if control.name in [part.strip() for part in name.split("|")]), "")
        former = tuple(part.strip() for part in name.split("|") if part.strip() not in ("", control.name))
        to_name = control.to_name[0] if control.to_name else control.name
        read.append(
            ReadControl(
                control.name, control.type, to_name, answers, control.scale, control.per_region, former, control.answers
            )
        )
        guesses += [f"{answer!r} in {control.name!r}: {why}" for answer, why in answers.guessed.items()]
        if form == "scores" and control.scale is None:
            guesses.append(f"the scale of {control.name!r} is not given: only which response has more counts")
        if form == "ranking" and control.buckets:
            guesses.append(f"the buckets of {control.name!r} are kinds, not grades: order counts within each")
        if form == "choice" and len(set(control.answers)) < len(control.answers):
            guesses.append(f"{control.name!r} has one text for two choices, and an answer by it counts for both")
    return tuple(read), tuple(guesses)


def _answers(control: Control, wanted: Wanted, *, is_only: bool) -> AnswerMap:
    """What a control's answers mean, once every one of them is known."""
    given = wanted.answers
    is_scale = control.type in ("rating", "number")
    if not is_only and control.answers and control.type != "pairwise":
        given = {answer: meaning for answer, meaning in given.items() if answer in control.answers}
    found = answer_map(control.answers, given, reads_words=not is_scale)
    listed = ", ".join(control.answers[:_SHOWN]) + (", …" if len(control.answers) > _SHOWN else "")
    if given and control.is_complete and not any(found.outcomes.values()):
        raise ConfigurationError(f"answers maps no answer of {control.name!r} to a side; offered answers: {listed}")
    if is_scale and not given:
        ends = f"{control.answers[0]}=left,{control.answers[-1]}=right" if control.answers else "1=left,5=right"
        raise ConfigurationError(
            f"control {control.name!r} needs 'answers': whether its lowest value ({listed or 'any number'}) speaks for "
            f"the left or the right item is not known; for instance --answers '{ends}', values between by equal steps"
        )
    if found.unknown and (control.is_complete or not found.outcomes):
        words = ", ".join(map(repr, found.unknown[:8])) + (", …" if len(found.unknown) > 8 else "")
        raise ConfigurationError(
            f"control {control.name!r} needs 'answers': nothing is known of {words} (it offers {listed}); say "
            f"what they mean, left, right, tie, both, neither or skip, such as {option_for(found.unknown)}"
        )
    if control.type != "pairwise" and control.answers and control.is_complete and not found.has_both_sides:
        raise ConfigurationError(
            f"control {control.name!r} needs 'answers': of those it offers ({listed}) none speaks for "
            f"{'the right' if any(v > 0 for v in found.outcomes.values()) else 'the left'} item"
        )
    return found


def _nothing_to_read(setup: Setup, wanted: Wanted) -> str:
    """Why no control can be read, and what would make it readable."""
    offered = ", ".join(f"{control.name} ({control.type})" for control in setup.controls[:_SHOWN]) or "none"
    if len(setup.controls) > _SHOWN:
        offered += f" and {len(setup.controls) - _SHOWN} more"
    for control in setup.controls:
        found = answer_map(control.answers, wanted.answers)
        if control.type == "choices" and (found.outcomes or found.unknown):
            words = control.answers
            return (
                f"the label config has no Pairwise control, and no Choices with left and right (offered: {offered}). "
                f"If {control.name!r} compares two items, say what its answers mean: --control {control.name} "
                f"{option_for(words, is_scale=True)}"
            )
    scales = [control for control in setup.controls if control.type in ("rating", "number")]
    if scales:
        what = "message" if scales[0].per_region else "response"
        return (
            f"{scales[0].name!r} grades one {what} at a time, which compares nothing (offered: {offered}); show two "
            "responses with a Pairwise, or with a Rating each; if its scale runs from one of two items to the other, "
            f"name it with --control {scales[0].name} and say what its ends mean with --answers '1=left,5=right'"
        )
    return f"the label config has no Pairwise control, and nothing else that compares (offered: {offered}); {REMEDY}"
