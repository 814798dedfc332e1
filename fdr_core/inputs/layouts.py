"""Logs that differ only in where things stand: judge, the two shown, answer and coin, as a table of paths."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fdr_core.errors import InputError
from fdr_core.inputs import rows
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import POOLED, Format
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.paths import at, each, is_nested
from fdr_core.inputs.rows import OUTCOMES, outcomes_of
from fdr_core.inputs.source import Record, Source

_SIGNS = {"a>b": 1.0, "a>>b": 1.0, "b>a": -1.0, "b>>a": -1.0, "a=b": 0.0, "a~b": 0.0}
_FIRST_OR_SECOND = {"1": 1.0, "2": -1.0, "0": 0.0, "tie": 0.0}
_BOTH = ("Both orders of every pair were asked, so a lean is told exactly and no coin is needed.",)
_NO_JUDGE = ("The judge is named in the path of the file only: it is taken from there.",)
_NO_COIN = ("Nothing records whether a coin decided the sides: state --sides random if one did.",)


@dataclass(frozen=True)
class Layout:
    """
    Where a log's answers stand in its records.

    Attributes
    ----------
    name, title : str
        What `--format` takes, and what people call it.
    left, right : str or callable
        Paths (or functions of a record) to what was shown first and second; in the second order they change places.
    answers : tuple of str
        Paths to the answer; a second one was given in the other order.
    needs : tuple of str
        Paths that lead somewhere in every log of this layout.
    annotator : tuple of str
        Paths whose values name the judge together; `@file` and `@folders` are the file's name and the two folders
        above it.
    people : tuple of str
        Fields of which each is a person's answer, in place of `annotator` and `answers`.
    words : mapping
        From an answer to an outcome.
    names_items : bool
        Whether answers name the items (the same one in both orders) and not the places.
    swapped : (path, value), optional
        Where a record says that it is of the other order.
    pair : tuple of str
        Paths that name a pair, whose orders share one coin; `@row` is the record's number, `@items` both items.
    task, time, stratum : str
        Further paths.
    void : (path, reason), optional
        What makes an answer none.
    each : str
        Path to the lists that hold the records, where they are not the file's own.
    pattern : str
        What of a long answer is the answer.
    only : bool
        Whether records hold nothing but what is needed.
    """

    name: str
    title: str
    left: str | Callable[[Record], Any]
    right: str | Callable[[Record], Any]
    answers: tuple[str, ...]
    needs: tuple[str, ...]
    annotator: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    words: Mapping[str, float] = field(default_factory=lambda: OUTCOMES)
    names_items: bool = False
    swapped: tuple[str, Any] | None = None
    pair: tuple[str, ...] = ()
    task: str = ""
    time: str = ""
    stratum: str = ""
    void: tuple[str, str] | None = None
    each: str = ""
    pattern: str = ""
    only: bool = False
    supports: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def recognises(self, source: Source) -> bool:
        """Whether a file's first records have what this layout needs."""
        if self.only and set(source.names) != set(self.needs):
            return False
        if not {name for path in self.needs for name in _fields(path)} <= set(source.names):
            return False
        return any(all(at(path)(record) is not None for path in self.needs) for record in source.sample[:5])

    def read(
        self, source: Source, *, swapped: Source | None = None, words: Mapping[str, float] | None = None
    ) -> RawAnswers:
        """The answers of a file, and of a second one that holds the other order."""
        layout = replace(self, words={**self.words, **(words or {})})
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

    def _frame(self, source: Source) -> pd.DataFrame:
        """All answers in the order of the file."""
        table = _Table(source, self)
        looks = [("", path, k == 1) for k, path in enumerate(self.answers)]
        looks += [(name, name, False) for name in self.people if name in source.names]
        parts = [self._part(table, *look) for look in looks]
        kept = [part for part in parts if part["given"].any()] or parts[:1]
        return pd.concat(kept).sort_index(kind="stable").reset_index(drop=True)

    def _part(self, table: "_Table", who: str, path: str, is_second: bool) -> pd.DataFrame:
        """The answers of one order, or of one person."""
        words = table.values(path)
        if self.pattern:
            words = words.map(str, na_action="ignore").str.extract(f"(?i:{self.pattern})", expand=False).astype(object)
        outcome = outcomes_of(words, self.words)
        is_swapped = np.full(table.n, is_second)
        if self.swapped is not None:
            is_swapped ^= (table.values(self.swapped[0]) == self.swapped[1]).to_numpy(dtype=bool)
        left, right = table.items
        annotator = pd.Series(who, index=range(table.n), dtype=object) if who else table.annotator
        part = pd.DataFrame(
            {
                "annotator": annotator,
                "left": np.where(is_swapped, right, left),
                "right": np.where(is_swapped, left, right),
                "outcome": np.where(is_swapped & self.names_items, -outcome, outcome),
                "given": words.notna(),
                "void": table.values(self.void[0]).map(bool, na_action="ignore").eq(True) if self.void else False,
            }
        )
        if pair := self.pair or (("@row",) if len(self.answers) > 1 else ()):
            part["coin"] = annotator.astype(str) + "|" + table.joined(pair, "|")
        for column, where in (("task", self.task), ("time", self.time), ("stratum", self.stratum)):
            if where:
                part[column] = table.values(where)
        return part

    @property
    def paths(self) -> tuple[str | Callable[[Record], Any], ...]:
        """Everything that is asked of a record."""
        others = (self.task, self.time, self.stratum, *(pair[0] for pair in (self.swapped, self.void) if pair))
        all_of = (self.left, self.right, *self.answers, *self.annotator, *self.people, *self.pair, *others)
        return tuple(path for path in all_of if path)

    @property
    def format(self) -> Format:
        """The layout as a format of the registry."""
        uses = {
            **{name: "annotator" for path in (*self.annotator, *self.people) for name in _fields(path)},
            **{name: "item" for path in (self.left, self.right) if isinstance(path, str) for name in _fields(path)},
            **{name: "answer" for path in self.answers for name in _fields(path)},
            **{name: "coin: the orders of a pair share it" for path in self.pair for name in _fields(path)},
            **{name: use for path, use in ((self.time, "time"), (self.task, "task")) for name in _fields(path)},
            **dict.fromkeys(_fields(self.stratum), "stratum"),
        }
        return Format(self.name, self.title, self.recognises, self.read, uses, self.supports, self.lacks)


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
        asked = [path for path in layout.paths if not callable(path) and not path.startswith("@")]
        is_flat = not layout.each and not any(callable(path) for path in layout.paths)
        is_flat = is_flat and all(path in source.names or not is_nested(path) for path in asked)
        plain = [path for path in asked if path in source.names]
        self._frame = source.frame(plain, text=plain) if is_flat else None
        found = () if is_flat else source.records
        self._records = [entry for record in found for entry in each(record, layout.each)] if layout.each else found
        self.n = len(self._frame) if self._frame is not None else len(self._records)

    def values(self, path: str | Callable[[Record], Any]) -> "pd.Series[Any]":
        """One value a record, missing where there is none."""
        if isinstance(path, str) and self._frame is not None and path in self._frame:
            return self._frame[path]
        if isinstance(path, str) and path.startswith("@"):
            return pd.Series(self._marks(path), index=range(self.n), dtype=object)
        value = at(path) if isinstance(path, str) else path
        records: Sequence[Record] = self._records if self._frame is None else [{}] * self.n
        return pd.Series([value(record) for record in records], index=range(self.n), dtype=object)

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
        return tuple(_each_once(item_key, self.values(path)) for path in (self._layout.left, self._layout.right))

    @cached_property
    def annotator(self) -> "pd.Series[Any]":
        """Name of the judge, from all the paths that hold a part of it; everybody where none is named."""
        names = self.joined(self._layout.annotator, " ") if self._layout.annotator else pd.Series([], dtype=object)
        if not names.any():
            return pd.Series(POOLED, index=range(self.n), dtype=object)
        return names.where(names != "", None)

    def joined(self, paths: Sequence[str], by: str) -> "pd.Series[Any]":
        """What stands at several paths, as one text; long texts by their key."""
        short = _name if by == " " else lambda value: item_key(_name(value))
        first, *others = [_each_once(short, self.values(path), missing="") for path in paths]
        text = pd.Series(first, dtype=object)
        for other in others:
            more = pd.Series(other, dtype=object)
            text = text + np.where((text == "") | (more == ""), "", by) + more
        return text


def _each_once(name: Callable[[Any], str], values: "pd.Series[Any]", *, missing: str | None = None) -> Any:
    """A name for each value, made once for equal ones."""
    try:
        codes, unique = pd.factorize(values)
    except TypeError:  # lists and objects have no hash
        codes = pd.factorize(values.map(repr, na_action="ignore"))[0]
        present, first = np.unique(codes, return_index=True)
        unique = pd.Index(values.iloc[first[present >= 0]], dtype=object)
    names = np.array([*map(name, unique), missing], dtype=object)
    return names[codes]


def _name(value: Any) -> str:
    """A judge's name; of a model with its prompt, both: the same model asked otherwise is another judge."""
    if isinstance(value, list) and len(value) == 2:
        return f"{value[0]} ({value[1]})"
    if isinstance(value, Mapping):
        value = value.get("label") or value.get("id") or value.get("name")
    return "" if value is None else str(value)


def _fields(path: str) -> list[str]:
    """The fields of a record in which a path starts."""
    if not path or path.startswith("@"):
        return []
    return [re.split(r"[.\[]", part.strip().strip('"'))[0].strip('"') for part in path.split("||")]


def _half(field: str, k: int) -> Callable[[Record], Any]:
    """One of two names that stand in one field, divided by a line below."""
    return lambda record: str(record.get(field) or "_").split("_", 1)[k]


def _grades(highest: int, first: int) -> dict[str, float]:
    """Numbers whose sign says who won: `first` is the sign of a win of the first shown."""
    return {str(k): first * k / highest for k in range(-highest, highest + 1)}


#: One row a layout; those with more fields of their own come first.
LAYOUTS: tuple[Layout, ...] = (
    Layout(
        name="llmbar",
        title="LLMBar evaluator results, both orders",
        needs=("output_1", "output_2", 'results[-1]."swap = False".winner'),
        annotator=("@folders",),
        left="output_1",
        right="output_2",
        answers=('results[-1]."swap = False".winner', 'results[-1]."swap = True".winner'),
        words=_FIRST_OR_SECOND,
        names_items=True,
        supports=_BOTH,
        lacks=_NO_JUDGE,
    ),
    Layout(
        name="judgebench",
        title="JudgeBench judgments, both orders",
        needs=("pair_id", "response_A", "response_B", "judgments"),
        annotator=("judge_name", "judgments[0].judgment.judge_model || judgments[1].judgment.judge_model"),
        left="response_A",
        right="response_B",
        answers=("judgments[0].decision", "judgments[1].decision"),
        words=_SIGNS,
        pair=("pair_id",),
        stratum="source",
        supports=_BOTH,
    ),
    Layout(
        name="reife",
        title="ReIFE evaluator results, one order a file",
        needs=("instruction", "output_1", "output_2", "result.winner"),
        annotator=("@file",),
        left="output_1",
        right="output_2",
        answers=("result.winner",),
        words=_FIRST_OR_SECOND,
        pair=("instruction", "@items"),
        void=("result.fail", "answer not understood, winner drawn at random"),
        lacks=("The other order is in the file of the same name with _swap: give it with --swapped.", *_NO_JUDGE),
    ),
    Layout(
        name="position-bias-analyzer",
        title="Position-Bias-Analyzer records",
        needs=("cmp_index", "A", "B", "extracted"),
        annotator=("@before extracted",),
        left="A",
        right="B",
        answers=("extracted",),
        pair=("question", "@items"),
        stratum="task",
        supports=_BOTH,
    ),
    Layout(
        name="fastchat-pairs",
        title="FastChat pairwise judgments, both orders",
        needs=("model_1", "model_2", "g1_winner", "g2_winner"),
        annotator=("judge",),
        left="model_1",
        right="model_2",
        answers=("g1_winner", "g2_winner"),
        words={"model_1": 1.0, "model_2": -1.0, "tie": 0.0},
        names_items=True,
        pair=("question_id", "turn", "@items"),
        time="tstamp",
        void=("m1_score", "graded one by one"),
        supports=_BOTH,
        lacks=("Lines with m1_score were graded one by one, without any order: they are left out.",),
    ),
    Layout(
        name="evaluatorq",
        title="evaluatorq pairwise run",
        needs=("judging", "entries"),
        each="entries[].comparison.votes[].observations[]",
        annotator=("model",),
        left="response_a",
        right="response_b",
        answers=("verdict",),
        swapped=("ordering", "ba"),
        names_items=True,
        pair=("question", "@items"),
        supports=_BOTH,
        lacks=("Runs saved before repetitions were recorded hold reconciled votes only, without any side.",),
    ),
    Layout(
        name="pandalm",
        title="PandaLM test set and its judges",
        needs=("cmp_key", "response1", "response2"),
        people=("annotator1", "annotator2", "annotator3", "gpt_result", "pandalm_result"),
        left=_half("cmp_key", 0),
        right=_half("cmp_key", 1),
        answers=(),
        words=_FIRST_OR_SECOND,
        task="idx",
        lacks=("Which model stood first was fixed by its name: sides were never swapped.",),
    ),
    Layout(
        name="lfqa",
        title="LFQA expert preferences",
        needs=("question", "answer_a", "answer_b", "overall_preference"),
        annotator=("annotator || annotator_id || worker_id",),
        left="answer_a",
        right="answer_b",
        answers=("overall_preference",),
        words=_grades(1, -1),
        lacks=_NO_COIN,
    ),
    Layout(
        name="helpsteer3",
        title="HelpSteer preferences",
        needs=("response1", "response2", "overall_preference"),
        left="response1",
        right="response2",
        answers=("overall_preference",),
        words=_grades(3, -1),
        stratum="domain",
        lacks=_NO_COIN,
    ),
    Layout(
        name="helpsteer2",
        title="HelpSteer2 preferences",
        needs=("response_1", "response_2", "preference_strength"),
        left="response_1",
        right="response_2",
        answers=("preference_strength",),
        words=_grades(3, -1),
        lacks=_NO_COIN,
    ),
    Layout(
        name="auto-j-pairs",
        title="Auto-J pairs labelled by people",
        needs=("response 1", "response 2", "label"),
        left="response 1",
        right="response 2",
        answers=("label",),
        words={"0": 1.0, "1": -1.0, "2": 0.0},
        stratum="scenario",
        lacks=_NO_COIN,
    ),
    Layout(
        name="auto-j-critiques",
        title="Auto-J comparisons of critiques",
        needs=("output", "meta"),
        annotator=("@file",),
        left=lambda _: "first system",
        right=lambda _: "second system",
        answers=("output",),
        pattern=r"^\s*([ABC])\b",
        swapped=("meta.exchange", True),
        task="@row",
        supports=("The order shown is recorded (exchange).",),
        lacks=_NO_JUDGE,
    ),
    Layout(
        name="auto-j-outputs",
        title="Auto-J leaderboard outputs, one order a file",
        needs=("output",),
        only=True,
        annotator=("@file",),
        left="@first",
        right="@second",
        answers=("output",),
        words={"0": 1.0, "1": -1.0, "2": 0.0},
        pair=("@row",),
        lacks=("The other order is in a file of its own: give it with --swapped.", *_NO_JUDGE),
    ),
)
