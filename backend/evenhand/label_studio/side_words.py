"""Which side a text speaks of: answers of a Choices control, and the fields that hold the two items."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

#: Words of either side, and of none, the clearest first.
WORDS: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (frozenset({"left"}), frozenset({"right"})),
    (frozenset({"first"}), frozenset({"second"})),
    (frozenset({"a"}), frozenset({"b"})),
    (frozenset({"1", "one"}), frozenset({"2", "two"})),
)
TIE = frozenset(
    {"tie", "tied", "equal", "equally", "same", "both", "neither", "none", "draw", "similar", "undecided", "unsure"}
)


def tokens(text: str) -> list[str]:
    """Words and numbers of a text or name, camelCase taken apart."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z0-9])", " ", text)
    return re.findall(r"[a-z]+|\d+", spaced.lower())


def outcomes_of(answers: Sequence[str]) -> Mapping[str, float] | None:
    """What each answer means, 1 left to -1 right; None unless every one of them speaks of a side or of a tie."""
    for left, right in WORDS:
        found = {answer: _outcome(set(tokens(answer)), left, right) for answer in answers}
        read = {answer: outcome for answer, outcome in found.items() if outcome is not None}
        if len(read) == len(answers) and {1.0, -1.0} <= set(read.values()):
            return read
    return None


def _outcome(words: set[str], left: frozenset[str], right: frozenset[str]) -> float | None:
    """The outcome of one answer; a tie word wins, since "both A and B" names the sides too."""
    if words & TIE or (words & left and words & right):
        return 0.0
    if words & left:
        return 1.0
    return -1.0 if words & right else None


def paired_fields(fields: Iterable[str]) -> tuple[str, str] | None:
    """The two fields that differ in nothing but their side; where no names tell, the only two there are."""
    names = list(dict.fromkeys(fields))
    pairs = [pair for pair in combinations(names, 2) if _differ_in_side(*pair)]
    if len(pairs) == 1:
        return pairs[0]
    return (names[0], names[1]) if not pairs and len(names) == 2 else None


def _differ_in_side(first: str, second: str) -> bool:
    one, other = tokens(first), tokens(second)
    if len(one) != len(other):
        return False
    different = [(x, y) for x, y in zip(one, other, strict=True) if x != y]
    return len(different) == 1 and any(different[0][0] in left and different[0][1] in right for left, right in WORDS)
