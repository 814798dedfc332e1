"""What became of every annotation: read, left out for a reason, or not understood; reading never loses silently."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdr_core.errors import InputError
from fdr_core.inputs.label_studio.answers import ELSEWHERE, Given
from fdr_core.inputs.label_studio.reading import Reading
from fdr_core.inputs.label_studio.words import names_side, option_for

#: From this share of answers that cannot be read on, nothing is judged.
MOST_UNREAD = 0.05
#: So many answers that cannot be read and name one side only would hide a lean, however few they are.
MOST_ONE_SIDED = 6
_MOST_KINDS = 20
#: What no reading could make a comparison of.
_NOTHING_TO_READ = ("without annotator", "same item twice")
_SKIPPED, _EMPTY, _OTHER, _SHOWN = "skipped", "empty", "other controls", "prediction"


@dataclass
class Account:
    """Counts of one reading; `examples` names a task for each kind of answer."""

    reading: Reading
    read: int = 0
    apart: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    given: Counter[str] = field(default_factory=Counter)
    examples: dict[str, Any] = field(default_factory=dict)
    outcomes: dict[str, float | None] = field(default_factory=dict)
    sides: Counter[int] = field(default_factory=Counter)

    def add(self, given: Given, task: Mapping[str, Any] | None = None) -> None:
        """Count one annotation."""
        text = given.word
        if text is not None:
            self.given[text] += 1
            self.examples.setdefault(text, (task or {}).get("id"))
            self.outcomes.setdefault(text, given.outcome)
        if given.status == "answer":
            self.read += 1
            if given.outcome:
                self.sides[1 if given.outcome > 0 else -1] += 1
        elif given.status == "skip":
            self.apart[_SKIPPED] += 1
        elif given.status == "empty":
            self.apart[_OTHER if given.reason == ELSEWHERE else _EMPTY] += 1
        elif given.status == "prediction":
            self.apart[_SHOWN] += 1
        elif given.reason in _NOTHING_TO_READ:
            self.apart[given.reason] += 1
        elif text is not None:
            self.words[text] += 1
        else:
            self.reasons[given.reason or "unreadable"] += 1

    @property
    def unread(self) -> int:
        """Answers to the control that could not be read."""
        return sum(self.words.values()) + sum(self.reasons.values())

    @property
    def submitted(self) -> int:
        """Answers to the control."""
        return self.read + self.unread

    @property
    def excluded(self) -> dict[str, int]:
        """What was left out, by reason and by word, the most frequent first."""
        unread = Counter({f"not understood: {word!r}": n for word, n in self.words.items()}) + self.reasons
        kept = dict(unread.most_common(_MOST_KINDS))
        rest = self.unread - sum(kept.values())
        return {**+self.apart, **kept, **({"unreadable for other reasons": rest} if rest else {})}

    @property
    def is_too_much(self) -> str:
        """Why so many answers were lost that a lean could hide among them; empty where that is not so."""
        if self.unread > MOST_UNREAD * self.submitted:
            return f"{self.unread:,} of {self.submitted:,} answers to {self.reading.control!r} could not be read"
        named = Counter(dict.fromkeys((1, -1), 0))
        for word, n in self.words.items():
            named[names_side(word)] += n
        for side, other, name in ((1, -1, "left"), (-1, 1, "right")):
            if named[side] >= MOST_ONE_SIDED and not named[other]:
                return f"{named[side]:,} answers to {self.reading.control!r} that all name the {name} could not be read"
            if self.words and self.sides[other] >= MOST_ONE_SIDED and not self.sides[side]:
                return f"every answer read speaks for one side, and {self.unread:,} could not be read"
        return ""

    @property
    def remedy(self) -> str:
        """What to do about answers that could not be read."""
        if self.words:
            return f"say what they mean, left, right, tie, both, neither or skip: {option_for(self.most_missed)}"
        return "check the control (--control), the items' fields (--item-left, --item-right), and the tasks' data"

    @property
    def most_missed(self) -> Sequence[str]:
        """Words that were not understood, the most frequent first."""
        return [word for word, _ in self.words.most_common(_MOST_KINDS)]

    def check(self, where: str) -> None:
        """Refuse a reading that lost so much that a lean could hide there."""
        lost = self.is_too_much
        if not lost:
            return
        kinds = Counter({repr(word): n for word, n in self.words.items()}) + self.reasons
        listed = ", ".join(f"{kind} {n:,}" for kind, n in kinds.most_common(8))
        read = f"read so far: {', '.join(f'{w!r}' for w in self._understood[:8])}" if self._understood else ""
        raise InputError(f"{where}{lost} ({listed}){f'; {read}' if read else ''}; {self.remedy}")

    @property
    def _understood(self) -> list[str]:
        return [word for word, outcome in self.outcomes.items() if outcome is not None]
