"""Columns of other tools under our names, for engines: renamed before anything is summed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fdr_core.errors import ConfigurationError
from fdr_core.inputs.registry import MAPPABLE
from fdr_core.inputs.side_words import OUTCOMES

#: Formats whose rows are answers, so that sums suffice: their columns, first those that must be there.
_FORMATS = (
    ({"model_a": "left", "model_b": "right", "winner": "choice"}, ("judge", "evaluation_session_id")),
    ({"left": "left", "right": "right", "winner": "choice"}, ("annotator", "judge", "worker")),
)


@dataclass(frozen=True)
class Translation:
    """
    How a file's columns are called here.

    Attributes
    ----------
    columns : mapping
        From the file's names to ours; others keep theirs.
    is_pooled : bool
        Whether nobody is named, so that all are one crowd.
    words : mapping, optional
        From the words of a choice to outcomes; left, right and tie where it is None.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    is_pooled: bool = False
    words: Mapping[str, float] | None = None

    def names(self, theirs: Sequence[str]) -> list[str]:
        """Our names of the columns; a column that keeps its name must not be mistaken for one that was named
        explicitly."""
        named = set(self.columns.values())
        return [self.columns.get(name, name if name not in named else f"their {name}") for name in theirs]


def translation_of(names: Sequence[str], mapping: Mapping[str, str] | None = None) -> Translation:
    """Take the map that was given, else the format that the columns tell, else the columns as they are."""
    if mapping:
        unknown = [ours for ours in mapping if ours not in MAPPABLE]
        if unknown:
            raise ConfigurationError(f"--map names {', '.join(unknown)}; expected one of {', '.join(MAPPABLE)}")
        is_pooled = "annotator" not in mapping and not {"annotator", "worker"} & set(names)
        return Translation({theirs: ours for ours, theirs in mapping.items()}, is_pooled, OUTCOMES)
    if {"choice", "outcome", "label"} & set(names):
        return Translation()
    for required, people in _FORMATS:
        if set(required) <= set(names):
            who = next((name for name in people if name in names), None)
            return Translation({**required, **({who: "annotator"} if who else {})}, who is None, OUTCOMES)
    return Translation()
