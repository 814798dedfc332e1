"""Options as fields of the frozen dataclass that uses them: default, bounds, choices and words in one place.

Nothing heavy is imported, so that a web server can read them without loading the numerics.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

from fdr_core.errors import ConfigurationError

NOTHING = ("", "none")


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes
    ----------
    title, words : a short name for forms, and what the option does.
    default : what holds when nothing is said.
    choices : the values it may take, each with words; empty for numbers.
    is_whole : whether a number has to be whole.
    low, high : bounds of a number; ``excludes_bounds`` where it has to lie strictly between them.
    may_be_empty : whether None is allowed: then the library chooses.
    name : of the field; filled in by `options_of`.
    """

    title: str
    words: str
    default: Any
    choices: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    is_whole: bool = False
    low: float = -math.inf
    high: float = math.inf
    excludes_bounds: bool = False
    may_be_empty: bool = False
    name: str = ""

    @property
    def expected(self) -> str:
        """What the option takes, in words."""
        if self.choices:
            taken = f"one of {', '.join(self.choices)}"
        elif self.excludes_bounds:
            taken = f"a number between {self.low:g} and {self.high:g}, such as {self.default:g}"
        else:
            kind = "a whole number" if self.is_whole else "a number"
            taken = f"{kind} from {self.low:g}" + (f" to {self.high:g}" if self.high < math.inf else "")
        return f"nothing, or {taken}" if self.may_be_empty else taken

    def fits(self, value: Any) -> bool:
        """Whether a value may be given."""
        if value is None:
            return self.may_be_empty
        if self.choices:
            return isinstance(value, str) and value in self.choices
        if isinstance(value, bool) or not isinstance(value, Integral if self.is_whole else Real):
            return False
        number = float(value)
        return self.low < number < self.high if self.excludes_bounds else self.low <= number <= self.high

    def check(self, value: Any) -> None:
        """Refuse a value outside the range, naming the option.

        Raises
        ------
        ConfigurationError
        """
        if not self.fits(value):
            raise ConfigurationError(f"{self.name} was {value!r}; expected {self.expected}")

    def is_default_of(self, owner: Any) -> bool:
        """Whether an object leaves the option as it is."""
        return bool(getattr(owner, self.name) == self.default)

    def read(self, text: str) -> Any:
        """The value that a text stands for; the text itself where it stands for none, so that `check` names it."""
        if self.may_be_empty and text.lower() in NOTHING:
            return None
        try:
            return text if self.choices else int(text) if self.is_whole else float(text)
        except ValueError:
            return text


def option(default: Any, title: str, words: str, choices: Mapping[str, str] | None = None, **bounds: Any) -> Any:
    """A field of a dataclass that is an option."""
    return field(default=default, metadata={"option": Option(title, words, default, choices or {}, **bounds)})


def options_of(owner: Any) -> tuple[Option, ...]:
    """The options of a dataclass, in their order."""
    declared = [entry for entry in dataclasses.fields(owner) if "option" in entry.metadata]
    return tuple(dataclasses.replace(entry.metadata["option"], name=entry.name) for entry in declared)


def check_options(owner: Any) -> None:
    """Refuse an object whose options are out of range.

    Raises
    ------
    ConfigurationError
    """
    for one in options_of(owner):
        one.check(getattr(owner, one.name))
