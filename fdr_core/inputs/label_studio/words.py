"""What the words of an answer say about two sides, in the languages of `words.json`."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from types import MappingProxyType

from fdr_core.errors import ConfigurationError

#: Marks of the two sides, the clearest first; a weaker pair counts where no clearer one is named.
FAMILIES = (("left", "right"), ("first", "second"), ("a", "b"), ("one", "two"))
_MARKS = {left: 1 for left, _ in FAMILIES} | {right: -1 for _, right in FAMILIES}
_TIES = ("tie", "both", "neither")
#: What `--answers` takes beside numbers.
MEANINGS: Mapping[str, float | None] = MappingProxyType(
    {"left": 1.0, "right": -1.0, "tie": 0.0, "both": 0.0, "neither": 0.0, "skip": None}
)
EXPECTED = "left, right, tie, both, neither, skip, or a number from -1 (right) to 1 (left)"
#: Strength of words: 1 slightly, 2 plainly, 3 much; one more for every further sign in A>>B or A++.
_PLAIN = 2
_SIGNS = re.compile(r"^(?P<one>\w+) ?(?P<sign>(?P<same>[<>+−–=≻≺≫≪-])(?P=same)*|[≈~]) ?(?P<other>\w*)$")
_SIGNED = {
    ">": (1, 0),
    "≻": (1, 0),
    "≫": (1, 1),
    "<": (-1, 0),
    "≺": (-1, 0),
    "≪": (-1, 1),
}
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
# Letters, digits and the vowel signs that Python does not count as letters.
_LETTER = r"[^\W_\u3040-\u30ff\u3400-\u9fff]|[\u0300-\u036f\u064b-\u0655\u0900-\u0903\u093a-\u094f]"


@dataclass(frozen=True)
class Meaning:
    """What one answer says: 1 left, -1 right, 0 neither (None: skipped), how strongly, and why that is a guess."""

    side: int | None
    level: int = _PLAIN
    guess: str = ""


@dataclass(frozen=True)
class AnswerMap:
    """
    What the answers of one control mean, as agreed.

    Attributes
    ----------
    outcomes : mapping
        From an answer to a number from -1 (right) to 1 (left).
    skips : frozenset
        Answers that say nothing of the pair.
    guessed : mapping
        From an answer to what of its meaning is a guess.
    unknown : tuple
        Answers on offer that nothing is known of.
    reads_words : bool
        Whether answers that are not on offer (any more) are read by their words.
    """

    outcomes: Mapping[str, float]
    skips: frozenset[str] = frozenset()
    guessed: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    reads_words: bool = True

    @property
    def has_both_sides(self) -> bool:
        """Whether some answer speaks for either side."""
        return any(value > 0 for value in self.outcomes.values()) and any(value < 0 for value in self.outcomes.values())

    def read(self, answer: str) -> float | None:
        """The outcome of an answer, None for one that is not understood; a skip is in `skips`."""
        if answer in self.outcomes:
            return self.outcomes[answer]
        key = plain(answer)
        for known, outcome in self.outcomes.items():
            if plain(known) == key:
                return outcome
        meaning = meaning_of(answer) if self.reads_words and answer not in self.skips else None
        is_plain = meaning is not None and meaning.side is not None and meaning.level == _PLAIN
        return float(meaning.side) if is_plain and meaning is not None and meaning.side is not None else None

    def is_skip(self, answer: str) -> bool:
        """Whether the answer says that nothing was judged."""
        if answer in self.skips or any(plain(answer) == plain(known) for known in self.skips):
            return True
        meaning = meaning_of(answer) if self.reads_words and answer not in self.outcomes else None
        return meaning is not None and meaning.side is None


def answer_map(
    answers: Iterable[str], given: Mapping[str, float | str] | None = None, *, reads_words: bool = True
) -> AnswerMap:
    """Say what a control's answers mean: what is given counts, the rest is read by its words."""
    agreed = {plain(answer): meaning for answer, meaning in (given or {}).items()}
    outcomes: dict[str, float] = {}
    skips, unknown, guessed = set[str](), list[str](), dict[str, str]()
    said: dict[str, Meaning] = {}
    answers = list(dict.fromkeys(answers))
    for answer in [*answers, *(a for a in given or {} if plain(a) not in {plain(b) for b in answers})]:
        if plain(answer) in agreed:
            number = outcome_given(answer, agreed[plain(answer)])
            if number is None:
                skips.add(answer)
            else:
                outcomes[answer] = number
            continue
        meaning = meaning_of(answer) if reads_words else None
        if meaning is None:
            unknown.append(answer)
        elif meaning.side is None:
            skips.add(answer)
        else:
            said[answer] = meaning
            if meaning.guess:
                guessed[answer] = meaning.guess
    outcomes |= _graded(said)
    if not reads_words:
        unknown = _interpolate(outcomes, unknown)
    in_order = {answer: outcomes[answer] for answer in [*answers, *outcomes] if answer in outcomes}
    return AnswerMap(in_order, frozenset(skips), guessed, tuple(unknown), reads_words)


def outcome_given(answer: str, meaning: float | str) -> float | None:
    """What somebody says an answer means; None is a skip. Raises ConfigurationError."""
    if isinstance(meaning, str) and meaning.strip().lower() in MEANINGS:
        return MEANINGS[meaning.strip().lower()]
    try:
        number = float("nan") if isinstance(meaning, bool) else float(meaning)
    except (TypeError, ValueError):
        number = float("nan")
    if not -1 <= number <= 1:
        raise ConfigurationError(f"answers maps {answer!r} to {meaning!r}; expected {EXPECTED}")
    return number


def meaning_text(outcome: float | None) -> str:
    """A meaning as `--answers` takes it."""
    return {None: "skip", 1.0: "left", -1.0: "right", 0.0: "tie"}.get(outcome) or f"{outcome:.3g}"


def answers_from(answers: Mapping[str, float | str] | str | None) -> dict[str, float | str]:
    """What answers are said to mean, as text or mapping; raises ConfigurationError for what is no meaning."""
    found = answers_from_text(answers) if isinstance(answers, str) else dict(answers or {})
    for answer, meaning in found.items():
        outcome_given(answer, meaning)
    return found


def answers_from_text(text: str) -> dict[str, float | str]:
    """Read `A is worse=right,Same=tie`, or a JSON object; raises ConfigurationError."""
    if text.lstrip().startswith(("{", "[")):
        try:
            parsed = json.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"answers is not JSON ({error}); write answer=meaning, with commas") from error
        if not isinstance(parsed, dict):
            raise ConfigurationError('answers is a list; expected an object such as {"A": "left", "B": "right"}')
        return {str(answer): meaning for answer, meaning in parsed.items()}
    pairs = [part.rpartition("=") for part in _split(text)]
    wrong = next((meaning for answer, _, meaning in pairs if not answer.strip()), None)
    if wrong is not None:
        raise ConfigurationError(f"answers has {wrong.strip()!r}; expected answer=meaning, where meaning is {EXPECTED}")
    return {answer.strip(): meaning.strip() for answer, _, meaning in pairs}


def option_for(words: Iterable[str], *, is_scale: bool = False) -> str:
    """The option that maps these answers, to be corrected and pasted; of a scale its two ends."""
    listed = list(dict.fromkeys(words))[:8]
    meanings = {word: {1: "left", -1: "right"}.get(names_side(word), "tie") for word in listed}
    if is_scale and len(listed) > 1:
        meanings = {**dict.fromkeys(listed, "tie"), listed[0]: "left", listed[-1]: "right"}
    pairs = ",".join(f"{_quoted(word)}={meaning}" for word, meaning in meanings.items())
    return f"--answers '{pairs}'" if "'" not in pairs else f'--answers "{pairs}"'


def names_side(text: str) -> int:
    """The only side an answer names, whatever it says of it; 0 where it names none or both."""
    sides = {side for side, _ in _marks(_scan(_prepared(text)), text)}
    return sides.pop() if len(sides) == 1 else 0


@lru_cache(maxsize=4096)
def meaning_of(text: str) -> Meaning | None:
    """What an answer says; None where its words do not tell, or tell too much."""
    if len(text) > 300 or (_is_number(text) and text.strip() not in ("1", "2")):
        return None
    prepared = _prepared(text)
    signed = _signed(prepared)
    if signed is not None:
        return signed
    found = _scan(prepared)
    marks = _marks(found, text)
    sides = {side for side, _ in marks}
    kinds = [kind for kind, _ in found]
    if "skip" in kinds and not sides:
        return Meaning(None)
    is_compared = "better" in kinds or "worse" in kinds
    if any(kind in _TIES for kind in kinds):
        return None if len(sides) == 1 and is_compared else Meaning(0, guess="" if sides in (set(), {1, -1}) else "tie")
    if not sides:
        return None
    n_turns = ("worse" in kinds) + ("not" in kinds) + ("harm" in kinds)
    if n_turns > 1 or (len(sides) == 2 and "not" in kinds):
        return None
    level = _PLAIN + ("much" in kinds) - ("slightly" in kinds)
    if "much" in kinds and "slightly" in kinds:
        level = 1  # "a little more than slightly": whoever says slightly means it
    if len(sides) == 2:
        if not is_compared:
            return None
        side = _subject(found, marks)
    else:
        side = sides.pop()
    guess = "says that it is worse" if n_turns else "names both sides" if len({s for s, _ in marks}) == 2 else ""
    return Meaning(-side if n_turns else side, level, guess or ("graded" if level != _PLAIN else ""))


def plain(text: str) -> str:
    """A text as it is compared: case, width and space aside."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def paired_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Names that differ only in the mark of their side: text1/text2, left/right, answer_a/answer_b."""
    known = list(dict.fromkeys(names))
    found = [pair for pair in ((a, b) for a in known for b in known if a != b) if _differ_in_side(*pair)]
    numbered = {part for name in known for part in _parts(name)}
    if not found and "2" not in numbered:
        found = [(a, b) for a in known for b in known if _differ_in(_parts(a), _parts(b), "0", "1")]
    return found


def numbered_names(names: Iterable[str]) -> list[str]:
    """The longest series of names that differ in a number or letter only: image1, image2, image3."""
    series: dict[tuple[str, ...], dict[int, str]] = {}
    for name in dict.fromkeys(names):
        for place, part in enumerate(parts := _parts(name)):
            number = _ORDER.get(part)
            if number is not None:
                series.setdefault((*parts[:place], "#", *parts[place + 1 :]), {}).setdefault(number, name)
    runs = [[row[k] for k in range(min(row), min(row) + len(row))] for row in series.values() if _is_run(row)]
    return max(runs, key=len, default=[])


_COUNTED = (
    tuple(map(str, range(1, 100))),
    ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    ("first", "second", "third", "fourth", "fifth", "sixth"),
    tuple("abcdefghij"),
)
_ORDER: Mapping[str, int] = {"0": 0, **{word: k for words in _COUNTED for k, word in enumerate(words, start=1)}}


def order_of(text: str) -> int | None:
    """The number by which an answer chooses among several: "Two", "Response C", "image3"; None if none or many."""
    numbers = [_ORDER[part] for part in _parts(text) if part in _ORDER]
    return numbers[0] if len(numbers) == 1 else None


def _is_run(row: Mapping[int, str]) -> bool:
    """Whether the numbers follow one another from 0 or 1."""
    return min(row) in (0, 1) and len(row) >= 2 and max(row) - min(row) == len(row) - 1


def _graded(said: Mapping[str, Meaning]) -> dict[str, float]:
    """Spread the grades that occur evenly up to 1; slight words alone are half."""
    levels = sorted({meaning.level for meaning in said.values() if meaning.side})
    share = {level: (place + 1) / len(levels) for place, level in enumerate(levels)}
    if levels == [1]:
        share = {1: 0.5}
    return {answer: (meaning.side or 0) * share.get(meaning.level, 1.0) for answer, meaning in said.items()}


def _interpolate(outcomes: dict[str, float], unknown: list[str]) -> list[str]:
    """Between two grades of a scale whose meaning is given lie the others, in equal steps; what lies outside stays."""
    anchors = sorted((float(answer), value) for answer, value in outcomes.items() if _is_number(answer))
    left: list[str] = []
    for answer in unknown:
        place = float(answer) if _is_number(answer) else float("nan")
        around = next(((a, b) for a, b in pairwise(anchors) if a[0] < place < b[0]), None)
        if around is None:
            left.append(answer)
            continue
        (low, start), (high, end) = around
        outcomes[answer] = start + (end - start) * (place - low) / (high - low)
    return left


def _signed(prepared: str) -> Meaning | None:
    """A>B, A >> B, A=B, A++, B+."""
    match = _SIGNS.match(prepared)
    if match is None:
        return None
    one, other = _mark(match["one"]), _mark(match["other"]) if match["other"] else 0
    sign, same = match["sign"], match["same"] or match["sign"]
    if one == 0 or (match["other"] and other != -one):
        return None
    if match["other"]:
        if same in "=≈~":
            return Meaning(0)
        turn, more = _SIGNED.get(same, (0, 0))
        return Meaning(one * turn, _PLAIN + len(sign) - 1 + more, "signs") if turn else None
    return Meaning(one, _PLAIN + len(sign) - 1, "signs") if same == "+" else None


def _mark(word: str) -> int:
    """The side that a lone word names."""
    marks = [_MARKS[kind] for kind, _ in _scan(word) if kind in _MARKS]
    return marks[0] if len(marks) == 1 else 0


def _marks(found: list[tuple[str, int]], text: str) -> list[tuple[int, int]]:
    """Sides that are named, by the clearest marks, with their places; a small a beside a big A is an article."""
    for family in FAMILIES:
        named = [(kind, place) for kind, place in found if kind in family]
        if family == ("a", "b"):
            written = _prepared(text, fold=False)
            big = [(kind, place) for kind, place in named if not written[place].islower()]
            if not big and len(text.split()) > 2 and len({kind for kind, _ in named}) < 2:
                continue  # "a" is an article or a preposition in many languages
            named = big or named
        if named:
            sides = [(_MARKS[kind], place) for kind, place in named]
            return [] if _contradicts(sides, family, text) else sides
    return []


def _contradicts(sides: list[tuple[int, int]], family: tuple[str, str], text: str) -> bool:
    """Whether "right" stands beside A, where it may mean "correct": "A is right"."""
    if family != FAMILIES[0] or {side for side, _ in sides} != {-1}:
        return False
    return re.search(r"\bright\b", text, re.I) is not None and re.search(r"(?<![^\W_])A(?![^\W_])", text) is not None


def _subject(found: list[tuple[str, int]], marks: list[tuple[int, int]]) -> int:
    """Of two sides that are compared, the one that is spoken of: the first, unless `than` stands behind it."""
    standard = next((place for kind, place in found if kind == "standard"), None)
    if standard is not None:
        before = [side for side, place in marks if place < standard]
        return -before[-1] if before else marks[0][0]
    return marks[0][0]


def _prepared(text: str, *, fold: bool = True) -> str:
    """A text with its words apart: camelCase and answer1 are two words each."""
    text = unicodedata.normalize("NFKC", text).replace("_", " ").replace("’", "'").strip(" []()\"'.!:;")
    text = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Za-z]{2})(?=[0-9])", " ", text)
    text = " ".join(text.split())
    return text.lower() if fold else text


def _scan(prepared: str) -> list[tuple[str, int]]:
    """Kinds of the known words and phrases, the longest first, with their places."""
    pattern, kinds = _vocabulary()
    return [(kind, match.start()) for match in pattern.finditer(prepared) for kind in kinds[match.group()]]


@cache
def _vocabulary() -> tuple[re.Pattern[str], Mapping[str, tuple[str, ...]]]:
    """Every word and phrase of every language in one pattern."""
    content = json.loads(files(__package__).joinpath("words.json").read_text(encoding="utf-8"))
    kinds: dict[str, dict[str, None]] = {}
    for language in content.values():
        for kind, phrases in language.items():
            for phrase in phrases:
                kinds.setdefault(_prepared(phrase), {}).setdefault(kind)
    written = sorted(kinds, key=len, reverse=True)
    alone = "|".join(re.escape(phrase) for phrase in written if not _CJK.search(phrase))
    within = "|".join(re.escape(phrase) for phrase in written if _CJK.search(phrase))
    return re.compile(rf"{within}|(?<!{_BEFORE})(?:{alone})(?!{_LETTER})"), {
        phrase: tuple(found) for phrase, found in kinds.items()
    }


_BEFORE = r"[^\W_\u3040-\u30ff\u3400-\u9fff]"


def _parts(name: str) -> list[str]:
    """Words and numbers of a name, camelCase taken apart."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z0-9])", " ", name)
    known = r"left|right|first|second|third|one|two|three"
    spaced = re.sub(rf"({known})(?=[^a-z]|$)", r" \1 ", spaced, flags=re.I)
    return re.findall(r"[^\W\d_]+|\d+", spaced.lower())


def _differ_in_side(first: str, second: str) -> bool:
    one, other = _parts(first), _parts(second)
    return any(_differ_in(one, other, left, right) for left, right in _FIELD_SIDES)


_FIELD_SIDES = (("left", "right"), ("first", "second"), ("a", "b"), ("1", "2"), ("one", "two"))


def _differ_in(one: list[str], other: list[str], left: str, right: str) -> bool:
    """Whether two names differ in one place only, and there in their side."""
    if len(one) != len(other):
        return False
    different = [(x, y) for x, y in zip(one, other, strict=True) if x != y]
    return different == [(left, right)]


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", text) is not None


def _split(text: str) -> list[str]:
    """Parts between commas, except within double quotes."""
    parts = re.findall(r'(?:"[^"]*"|[^,])+', text)
    return [part.replace('"', "") for part in parts if part.strip()]


def _quoted(word: str) -> str:
    return f'"{word}"' if "," in word else word


def one_pair(names: Iterable[str]) -> tuple[str, str] | None:
    """The two fields that differ in nothing but their side; where no names tell, the only two there are."""
    known = list(dict.fromkeys(names))
    pairs = paired_names(known)
    if len(pairs) == 1:
        return pairs[0]
    return (known[0], known[1]) if not pairs and len(known) == 2 else None
