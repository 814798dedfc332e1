"""Logs that differ only in where things stand: judge, the two shown, answer and coin, as a table of paths."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.errors import InputError
from fdr_core.inputs import rows
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import PATH_OF_FILE, POOLED, Format
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.label_studio.words import paired_names
from fdr_core.inputs.paths import alternatives, at, each, is_nested
from fdr_core.inputs.rows import OUTCOMES, outcomes_of
from fdr_core.inputs.source import Record, Source
from fdr_core.types import Floats

#: Where something stands in a record, or what finds it there.
Where = str | Callable[[Record], Any]
_REMEDY = "record judge, shown_first, shown_second and answer (fdr_core.judges.record does)"


@dataclass(frozen=True)
class Layout:
    """
    Where a log's answers stand in its records.

    Attributes
    ----------
    name, title : str
        What `--format` takes, and what people call it; several layouts may be one format.
    needs : tuple of str
        Paths that lead somewhere in every log of this layout.
    left, right : str or callable
        Paths (or functions of a record) to what was shown first and second; in the second order they change places.
    answers : tuple of str
        Paths to the answer; a second one was given in the other order.
    annotator : tuple of str
        Paths whose values name the judge together; `@file` and `@folders` are the file's name and the two folders
        above it.
    people : tuple of str
        Fields of which each is a person's answer, in place of `annotator` and `answers`.
    words : mapping or callable
        From an answer to an outcome.
    one_hot : tuple of str
        Three fields of which one holds a 1: the first won, the second, neither; in place of `answers`.
    names_items : bool
        Whether answers name the items (the same one in both orders) and not the places.
    swapped : str or callable
        What is true where a record is of the other order.
    pair : tuple of str
        Paths that name a pair, whose orders share one coin; `@row` is the record's number, `@items` both items.
    coin, task, time, lead_time, stratum : str or callable
        Further paths; one coin is everybody's.
    within : str
        Path to what the items belong to: its name is part of theirs, and the stratum.
    void : (path, reason), optional
        What makes an answer none.
    each : tuple of str
        Paths to the lists that hold the records, where they are not the file's own.
    guess : (str, str), optional
        What the names of the two items' fields start with, and those of the answer's, where names and values tell
        which they are; `doc.` are the fields of a record's doc.
    pattern : str
        What of a long answer is the answer.
    only : bool
        Whether records hold nothing but what is needed.
    without : tuple of str
        Fields that another layout has.
    uses : mapping
        What fields are used for where the paths do not tell.
    refusal : str
        Why such a log cannot be judged.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    left: Where = ""
    right: Where = ""
    answers: tuple[Where, ...] = ()
    annotator: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    words: Mapping[str, float] | Callable[[Any], float] = field(default_factory=lambda: OUTCOMES)
    one_hot: tuple[str, ...] = ()
    names_items: bool = False
    swapped: Where = ""
    pair: tuple[str, ...] = ()
    coin: Where = ""
    task: Where = ""
    time: Where = ""
    lead_time: Where = ""
    stratum: Where = ""
    within: str = ""
    void: tuple[Where, str] | None = None
    each: tuple[str, ...] = ()
    guess: tuple[str, str] | None = None
    pattern: str = ""
    only: bool = False
    without: tuple[str, ...] = ()
    uses: Mapping[str, str] = field(default_factory=dict)
    supports: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    refusal: str = ""

    def recognises(self, source: Source) -> bool:
        """Whether a file's first records have what this layout needs."""
        names = set(source.names)
        if (self.only and names != set(self.needs)) or names & set(self.without):
            return False
        if not all(names.intersection(_fields(path)) for path in self.needs):
            return False
        deep = [at(path) for path in self.needs if path not in names and any(map(is_nested, alternatives(path)))]
        return not deep or any(all(value(record) is not None for value in deep) for record in source.sample[:5])

    def read(
        self, source: Source, *, swapped: Source | None = None, words: Mapping[str, float] | None = None
    ) -> RawAnswers:
        """The answers of a file, and of a second one that holds the other order."""
        if self.refusal:
            raise InputError(f"{source.where}{self.refusal}; {_REMEDY}")
        layout = self._guessed(source)
        if words and not callable(layout.words):
            layout = replace(layout, words={**layout.words, **words})
        frame = layout._frame(source)
        if swapped is not None:
            frame = in_both_orders(frame, layout._frame(swapped), where=swapped.where)
        left_out = Counter({"no answer": int((~frame["given"]).sum())})
        if self.void is not None:
            left_out[self.void[1]] += int((frame["void"] & frame["given"]).sum())
        frame = frame[frame["given"] & ~frame["void"]].drop(columns=["given", "void"])
        if frame.empty:
            raise InputError(
                f"{source.where}holds no answer of the layout {self.title}. {' '.join(self.lacks)}".strip()
            )
        return rows.from_frame(frame, where=source.where, excluded=dict(+left_out))

    def _guessed(self, source: Source) -> "Layout":
        """With the two fields that are named alike but for the side, and the one whose values say which side won."""
        if self.guess is None:
            return self
        items, answer = self.guess
        taken = {name for path in self.needs for name in _fields(path)}
        if items == "doc.":
            doc = source.sample[0].get("doc")
            shown = {f'doc."{name}"': name for name in doc} if isinstance(doc, Mapping) else {}
        else:
            shown = {name: name for name in source.names if name.startswith(items) and name not in taken}
        found = paired_names(list(shown.values()))
        if not found:
            raise InputError(
                f"{source.where}cannot tell which fields were compared; found: "
                f"{', '.join([*shown.values()][:20]) or 'none'}; expected two that differ in the side only, such as "
                f"{items}response_a and {items}response_b; or name them: --map left=… --map right=…"
            )
        left, right = (next(path for path, name in shown.items() if name == side) for side in found[0])
        if self.answers:
            return replace(self, left=left, right=right)
        names = [name for name in source.names if name.startswith(answer) and name not in {*taken, left, right}]
        fits = [name for name in names if _says_side([record.get(name) for record in source.sample])]
        if len(fits) != 1:
            seen = f"{', '.join(fits)} all do" if fits else f"none of {', '.join(names[:20]) or 'none'} does"
            raise InputError(
                f"{source.where}expected one field that says which side won (left/right, A/B, 1/2, tie); {seen}; "
                "name it: --map choice=…"
            )
        return replace(self, left=left, right=right, answers=(fits[0],))

    def _frame(self, source: Source) -> pd.DataFrame:
        """All answers in the order of the file."""
        table = _Table(source, self)
        looks: list[tuple[str, Where, bool]] = [("", path, k == 1) for k, path in enumerate(self.answers)]
        looks += [(name, name, False) for name in self.people if name in source.names]
        looks += [("", self.one_hot[0], False)] if self.one_hot else []
        parts = [self._part(table, *look) for look in looks]
        kept = [part for part in parts if part["given"].any()] or parts[:1]
        return kept[0] if len(kept) == 1 else pd.concat(kept).sort_index(kind="stable").reset_index(drop=True)

    def _part(self, table: "_Table", who: str, path: Where, is_second: bool) -> pd.DataFrame:
        """The answers of one order, or of one person."""
        words = table.values(path)
        if self.pattern:
            words = words.map(str, na_action="ignore").str.extract(f"(?i:{self.pattern})", expand=False).astype(object)
        outcome = self._outcome(words) if not self.one_hot else _winners([table.values(name) for name in self.one_hot])
        is_swapped = np.full(table.n, is_second)
        if self.swapped:
            is_swapped ^= (table.values(self.swapped) == True).to_numpy(dtype=bool)  # noqa: E712  # 1 and "x" are not
        left, right = table.items
        if is_swapped.any():
            left, right = right.where(is_swapped, left), left.where(is_swapped, right)
        annotator = pd.Series(who, index=range(table.n), dtype=object) if who else table.annotator
        part = pd.DataFrame(
            {
                "annotator": annotator,
                "left": left,
                "right": right,
                "outcome": np.where(is_swapped & self.names_items, -outcome, outcome),
                "given": words.notna(),
                "void": table.values(self.void[0]).map(bool, na_action="ignore").eq(True) if self.void else False,
            }
        )
        if pair := self.pair or (("@row",) if len(self.answers) > 1 else ()):
            part["coin"] = annotator.astype(str).astype(object) + "|" + table.joined(pair, "|").astype(object)
        for column in ("coin", "task", "time", "lead_time", "stratum"):
            if where := getattr(self, column):
                part[column] = table.values(where)
        return part if not self.within else part.assign(stratum=table.values(self.within))

    def _outcome(self, words: "pd.Series[Any]") -> Floats:
        if callable(self.words):
            return words.map(self.words).to_numpy(dtype=np.float64)
        return outcomes_of(words, self.words)

    @property
    def paths(self) -> tuple[Where, ...]:
        """Everything that is asked of a record."""
        others = (
            *(self.coin, self.task, self.time, self.lead_time, self.stratum, self.within, self.swapped),
            *((self.void[0],) if self.void else ()),
        )
        all_of = (self.left, self.right, *self.answers, *self.annotator, *self.people, *self.one_hot, *self.pair)
        return tuple(path for path in (*all_of, *others) if path)

    @property
    def columns(self) -> dict[str, str]:
        """What the fields of a record are used for."""
        uses: tuple[tuple[str, Sequence[Where]], ...] = (
            ("annotator", (*self.annotator, *self.people)),
            ("item", (self.left, self.right)),
            ("answer", (*self.answers, *self.one_hot)),
            ("coin: the orders of a pair share it", self.pair),
            ("coin that decided the sides", (self.coin,)),
            ("time", (self.time,)),
            ("lead time", (self.lead_time,)),
            ("task", (self.task,)),
            ("stratum", (self.stratum,)),
            ("part of the items' names, and stratum", (self.within,)),
        )
        found = {name: use for use, paths in uses for path in paths for name in _fields(path)}
        if any(path.startswith("@") for path in self.annotator):
            found[PATH_OF_FILE] = "annotator"
        return {**found, **self.uses}


def formats_of(layouts: Sequence[Layout]) -> list[Format]:
    """The formats of the registry; a file is read by the first of a format's layouts that recognises it."""
    by_name: dict[str, list[Layout]] = {}
    for layout in layouts:
        by_name.setdefault(layout.name, []).append(layout)
    return [_format(ways) for ways in by_name.values()]


def _format(ways: Sequence[Layout]) -> Format:
    def read(source: Source, **given: Any) -> RawAnswers:
        return next((way for way in ways if way.recognises(source)), ways[0]).read(source, **given)

    first = ways[0]
    uses = {name: use for way in ways for name, use in way.columns.items()}
    return Format(
        first.name,
        first.title,
        lambda source: any(way.recognises(source) for way in ways),
        read,
        uses,
        first.supports,
        first.lacks or tuple(filter(None, [first.refusal])),
        first.refusal and f"{first.refusal}; {_REMEDY}",
        takes_words=not first.refusal,
    )


def in_both_orders(first: pd.DataFrame, second: pd.DataFrame, *, where: str) -> pd.DataFrame:
    """
    Put the answers of two files together that hold the same pairs, row by row, in both orders.

    The second file's answers speak of what was shown first and second there; where its items stand as in the first
    file, the file was written before they were exchanged.
    """
    if len(first) != len(second):
        raise InputError(f"{where}holds {len(second)} answers and the first file {len(first)}; expected the same pairs")
    is_same = (first["left"] == second["left"]) & (first["right"] == second["right"])
    is_turned = (first["left"] == second["right"]) & (first["right"] == second["left"])
    if not (is_same | is_turned).all():
        row = int(np.argmin(is_same | is_turned))
        raise InputError(
            f"{where}row {row + 1} compares {second['left'][row]} with {second['right'][row]}, that row of the first "
            f"file {first['left'][row]} with {first['right'][row]}; expected the same pairs in the same order"
        )
    second = second.assign(
        left=second["right"].where(is_same, second["left"]), right=second["left"].where(is_same, second["right"])
    )
    if "annotator" in first:
        differ = first["annotator"] != second["annotator"]
        if differ.any() and max(first["annotator"].nunique(), second["annotator"].nunique()) > 1:
            row = int(np.argmax(differ))
            raise InputError(
                f"{where}row {row + 1} is of {second['annotator'][row]}, that row of the first file of "
                f"{first['annotator'][row]}; expected the same judges in the same order"
            )
        second = second.assign(annotator=first["annotator"])
    number = pd.Series([f"row {k + 1}" for k in range(len(first))], dtype=object)
    return pd.concat([first.assign(coin=number), second.assign(coin=number)], ignore_index=True)


class _Table:
    """Columns of a log by path: from its table where no path leads deeper, else from its records."""

    def __init__(self, source: Source, layout: Layout) -> None:
        self._source, self._layout = source, layout
        names = set(source.names)
        asked = [path for path in layout.paths if isinstance(path, str) and not path.startswith("@")]
        parts = [part for path in asked for part in ([path] if path in names else alternatives(path))]
        is_flat = not layout.each and not any(callable(path) for path in layout.paths)
        is_flat = is_flat and all(part in names or not is_nested(part) for part in parts)
        plain = [part for part in parts if part in names]
        self._frame = (
            source.frame(plain, text=[name for name in plain if name not in layout.one_hot]) if is_flat else None
        )
        found = () if is_flat else source.records
        lists = (chain.from_iterable(each(record, path) for path in layout.each) for record in found)
        self._records: Sequence[Record] = list(chain.from_iterable(lists)) if layout.each else found
        self.n = len(self._frame) if self._frame is not None else len(self._records)

    def values(self, path: Where) -> "pd.Series[Any]":
        """One value a record, missing where there is none."""
        if isinstance(path, str) and path.startswith("@"):
            return pd.Series(self._marks(path), index=range(self.n), dtype=object)
        if isinstance(path, str) and self._frame is not None:
            parts = [path] if path in self._frame else [part for part in alternatives(path) if part in self._frame]
            found = [self._frame[part] for part in parts] or [pd.Series(None, index=range(self.n), dtype=object)]
            column = found[0]
            for other in found[1:]:
                column = column.where(column.notna(), other)
            return column
        value = at(path) if isinstance(path, str) else path
        return pd.Series([value(record) for record in self._records], index=range(self.n), dtype=object)

    def _marks(self, mark: str) -> list[Any]:
        """What the file says beside its fields."""
        if mark == "@items":
            return [f"{min(a, b)}|{max(a, b)}" for a, b in zip(*(map(str, side) for side in self.items), strict=True)]
        if mark in ("@row", "@first", "@second"):
            end = {"@row": "", "@first": " first", "@second": " second"}[mark]
            return [f"{k + 1}{end}" for k in range(self.n)]
        path = Path(self._source.name.removesuffix(".gz"))
        names = self._source.names
        return [
            {
                "@file": path.stem.removesuffix("_swap"),
                "@folders": "/".join(part for part in path.parent.parts[-2:] if part.strip("/.")) or path.stem,
                "@before extracted": names[names.index("extracted") - 1] if "extracted" in names else "",
            }[mark]
        ] * self.n

    @cached_property
    def items(self) -> tuple[Any, Any]:
        """Names of both items."""
        one, two = (_each_once(item_key, self.values(path)) for path in (self._layout.left, self._layout.right))
        if not self._layout.within:
            return _alike(one, two)
        # A condition is another item in every scene: the same method may do well in one and badly in the next.
        within = self.values(self._layout.within)
        if not within.notna().any():
            return _alike(one, two)
        names = within.map(str, na_action="ignore") + ": "
        return names + one.astype(object), names + two.astype(object)

    @cached_property
    def annotator(self) -> "pd.Series[Any]":
        """Name of the judge, from all the paths that hold a part of it; everybody where none is named."""
        names = self.joined(self._layout.annotator, " ") if self._layout.annotator else pd.Series([], dtype=object)
        if not (names != "").any():
            return pd.Series(POOLED, index=range(self.n), dtype=object)
        return names.where(names != "", None)

    def joined(self, paths: Sequence[str], by: str) -> "pd.Series[Any]":
        """What stands at several paths, as one text; long texts by their key."""
        short = _name if by == " " else lambda value: item_key(_name(value))
        text, *others = [_each_once(short, self.values(path), missing="") for path in paths]
        for other in others:
            text, more = text.astype(object), other.astype(object)
            text = text + np.where((text == "") | (more == ""), "", by) + more
        return text


def _each_once(name: Callable[[Any], str], values: "pd.Series[Any]", *, missing: str | None = None) -> "pd.Series[Any]":
    """A name for each value, made once for equal ones and kept as a category, which is not hashed again."""
    try:
        codes, unique = pd.factorize(values)
    except TypeError:  # lists and objects have no hash
        codes = pd.factorize(values.map(repr, na_action="ignore"))[0]
        present, first = np.unique(codes, return_index=True)
        unique = pd.Index(values.iloc[first[present >= 0]], dtype=object)
    names = [*map(name, unique), *([missing] if missing is not None and (codes < 0).any() else [])]
    code, different = pd.factorize(np.array([*names, None], dtype=object)[:-1])
    if missing is not None:
        codes = np.where(codes < 0, len(names) - 1, codes)
    dtype = pd.CategoricalDtype(pd.Index(different, dtype=object))
    return pd.Series(pd.Categorical.from_codes(np.append(code, -1)[codes], dtype=dtype))


def _alike(one: "pd.Series[Any]", two: "pd.Series[Any]") -> "tuple[pd.Series[Any], pd.Series[Any]]":
    """Both with the categories of both, so that they can be compared."""
    names = one.cat.categories.union(two.cat.categories, sort=False)
    return one.cat.set_categories(names), two.cat.set_categories(names)


def _winners(flags: Sequence["pd.Series[Any]"]) -> Floats:
    """Outcomes from three columns of which one holds a 1."""
    first, second, neither = (pd.to_numeric(flag, errors="coerce") for flag in flags)
    return (first - second).where(first + second + neither == 1).to_numpy(dtype=np.float64)


def _says_side(values: Sequence[Any]) -> bool:
    given = [value for value in values if value not in (None, "")]
    outcomes = outcomes_of(given)
    return bool(given) and not np.isnan(outcomes).any() and bool((outcomes != 0).any())


def _name(value: Any) -> str:
    """A judge's name; of a model with its prompt, both: the same model asked otherwise is another judge."""
    if isinstance(value, list) and len(value) == 2:
        return f"{value[0]} ({value[1]})"
    if isinstance(value, Mapping):
        value = value.get("label") or value.get("id") or value.get("name")
    return "" if value is None else str(value)


def _fields(path: Where) -> list[str]:
    """The fields of a record in which a path starts; of a name with dots in it, the name too."""
    if not isinstance(path, str) or not path or path.startswith("@"):
        return []
    starts = [re.split(r"[.\[]", part.strip('"'))[0].strip('"') for part in alternatives(path)]
    return starts if "||" in path or '"' in path else list(dict.fromkeys([*starts, path]))
