"""Validated, indexed comparisons: who preferred which of two items, standing on which side."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fdr_core.errors import InputError
from fdr_core.inputs import tables
from fdr_core.inputs.columns import (
    RawAnswers,
    RawSkips,
    as_series,
    code_column,
    code_items,
    read_lead_times,
    read_outcomes,
    read_times,
)
from fdr_core.inputs.label_studio.exports import read_export
from fdr_core.inputs.label_studio.reading import Wanted
from fdr_core.inputs.label_studio.words import answers_from
from fdr_core.inputs.likely_coin import MOST_COLUMNS, likely_coin, one_coin
from fdr_core.inputs.sanity import MEANT, looks_broken
from fdr_core.inputs.source import Limits, Source

CoinSource = Literal["coin", "task", "guessed", "own"]


@dataclass(frozen=True, eq=False)
class Skips:
    """
    Presentations that were skipped instead of answered.

    Attributes
    ----------
    annotator : (n_skips,) int32
        Code of the annotator, -1 for one who gave no answer at all.
    left, right : (n_skips,) int32
        Codes of the items; skips of items that no answer mentions are left out.
    coin : (n_skips,) int64
        Codes of the coins; coins that no answer shares continue the numbering of the answers' coins.
    """

    annotator: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    coin: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.annotator.size)


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons:
    """
    Answers to pairwise comparisons, checked and coded.

    Build one with `from_file`, `from_frame`, `from_arrays`, `from_csv`, `from_parquet` or `from_label_studio`; the
    constructor itself checks nothing.

    Attributes
    ----------
    annotators, items : (m,), (n,) object
        Labels in order of first appearance (items row by row, left before right).
    annotator, left, right : (N,) int32
        Codes into the labels.
    outcome : (N,) float64
        In [-1, 1]: 1 left preferred, -1 right preferred, 0 tie.
    coin : (N,) int64
        Codes of the coins that decided the sides, by first appearance.
    coin_source : {"coin", "task", "guessed", "own"}
        Where the coins come from: recorded, one per task, guessed from a column (nothing is proven then), or one per
        answer.
    time, lead_time : (N,) float64 or None
        Seconds since the epoch, and seconds spent; NaN where unknown.
    stratum : (N,) int32 or None
        Codes into `strata`.
    excluded : mapping
        Answers left out, by reason.
    skips : Skips or None
        Skipped presentations, where the source records them.
    coins : (n_coins,) object or None
        Labels of the coins, None where every answer has its own; coin_column : the column they were guessed from.
    features : DataFrame or None
        What is known of the items of every answer, for leans beyond position (`fdr_core.other_leans`).
    item_class : (n,) object or None; see `with_item_class`.
    """

    annotators: NDArray[np.object_]
    items: NDArray[np.object_]
    annotator: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    outcome: NDArray[np.float64]
    coin: NDArray[np.int64]
    coin_source: CoinSource = "own"
    time: NDArray[np.float64] | None = None
    lead_time: NDArray[np.float64] | None = None
    stratum: NDArray[np.int32] | None = None
    strata: NDArray[np.object_] = field(default_factory=lambda: np.empty(0, dtype=object))
    excluded: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    skips: Skips | None = None
    coins: NDArray[np.object_] | None = None
    coin_column: str = ""
    features: pd.DataFrame | None = None
    item_class: NDArray[np.object_] | None = None

    @classmethod
    def from_arrays(
        cls,
        annotator: Any,
        left: Any,
        right: Any,
        outcome: Any,
        *,
        coin: Any = None,
        task: Any = None,
        time: Any = None,
        lead_time: Any = None,
        stratum: Any = None,
    ) -> Self:
        """
        Build from one-dimensional columns of equal length.

        Parameters
        ----------
        annotator, left, right : (N,) array-like
            Labels (text, numbers, anything hashable).
        outcome : (N,) array-like
            Numbers in [-1, 1]: 1 left preferred, -1 right preferred, 0 tie.
        coin, task : (N,) array-like, optional
            Which coin flip decided the sides: `coin`, else `task`, else every answer has its own.
        time : (N,) array-like, optional
            Seconds since the epoch, datetimes, or ISO 8601 text (UTC where no zone is given).
        lead_time : (N,) array-like, optional
            Seconds spent on the answer.
        stratum : (N,) array-like, optional
            A group the answer belongs to, such as its prompt.

        Raises
        ------
        InputError
            For anything that is not a comparison, naming the first offending row.
        """
        return cls._from_raw(RawAnswers(annotator, left, right, outcome, coin, task, time, lead_time, stratum))

    @classmethod
    def from_frame(
        cls, df: pd.DataFrame, *, skips: pd.DataFrame | None = None, items: pd.DataFrame | None = None
    ) -> Self:
        """
        Build from a table.

        Parameters
        ----------
        df : DataFrame, or a table of Arrow, polars or `datasets`
            Columns annotator, left, right and either choice (left, right, tie) or outcome in [-1, 1]; or crowd-kit's
            worker, left, right, label (the item that won). Optional: coin, task, time, lead_time, stratum.
        skips : DataFrame, optional
            Skipped presentations: annotator, left, right, and coin or task where the answers have it.
        items : DataFrame, optional
            What is known of the items, see `with_items`.

        Raises
        ------
        InputError
            For missing or doubled columns and for every row that is not a comparison.
        """
        if not isinstance(df, pd.DataFrame) and hasattr(df, "to_pandas"):
            df = df.to_pandas()
        made = cls._from_raw(tables.read_frame(df, skips=skips))
        return made if items is None else made.with_items(items)

    @classmethod
    def from_file(
        cls,
        path: str | Path | Source,
        *,
        format: str = "auto",
        mapping: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        features: bool = False,
        fields: Mapping[str, Any] | None = None,
        swapped: str | Path | None = None,
        items: str | Path | None = None,
        one_sided: bool = False,
    ) -> Self:
        """
        Build from a file of any format that the registry knows: CSV, Parquet, JSON or JSON lines, gzipped or not.

        Parameters
        ----------
        path : str, Path or Source; `-` is standard input.
        format : a name of `fdr_core.inputs.registry.FORMATS`; "auto" looks at the columns.
        mapping : mapping, optional
            From our columns (annotator, left, right, choice or outcome or label, coin, task, time, lead_time, stratum)
            to those of the file, or to paths such as ``results[0].winner``, for what no format describes; several
            columns for ``choice`` are several people.
        limits : the largest data to take into memory.
        features : bool
            Whether to read what the file tells of its items too: gold, x_length, text_left and text_right and the like.
        fields : mapping, optional
            How a Label Studio export is read: parameters of `from_label_studio`; `answers` for any words.
        swapped : str or Path, optional
            A second file: the same pairs, row by row, in the other order.
        items : str or Path, optional
            A table of the items for `with_items`: `item`, as the answers name it, and `class`.
        one_sided : whether answers that all go to one side, of five annotators or more, are meant.

        Raises
        ------
        InputError
            For files that cannot be read, formats that cannot be judged, and rows that are not comparisons.
        """
        from fdr_core.inputs import registry

        source = path if isinstance(path, Source) else Source(path, limits=limits)
        other = None if swapped is None else Source(swapped, limits=limits)
        read = registry.read(source, format=format, mapping=mapping, features=features, fields=fields, swapped=other)
        comparisons = cls._from_raw(read)._with_likely_coin(source, read)
        one_coin(comparisons.coin, comparisons.n_items, comparisons.coin_source, source.where)
        if not one_sided and (seen := looks_broken(comparisons.annotator, comparisons.outcome)):
            raise InputError(f"{source.where}{seen}; {MEANT}")
        made = tables.restore_integers(comparisons) if source.kind == "csv" else comparisons
        return made if items is None else made.with_items(tables.read_items(Source(items, limits=limits), made.items))

    @classmethod
    def from_csv(cls, path: str | Path) -> Self:
        """Build from a CSV file (UTF-8; comma, semicolon or tab) with the columns of `from_frame`."""
        return tables.restore_integers(cls._from_raw(tables.read_own_columns(Source(path, kind="csv"))))

    @classmethod
    def from_parquet(cls, path: str | Path) -> Self:
        """Build from a Parquet file with the columns of `from_frame`."""
        return cls._from_raw(tables.read_own_columns(Source(path, kind="parquet")))

    @classmethod
    def from_label_studio(
        cls,
        source: str | Path | Sequence[Mapping[str, Any]],
        *,
        control: str | None = None,
        item_left: str | None = None,
        item_right: str | None = None,
        coin: str | None = None,
        stratum: str | None = None,
        answers: Mapping[str, float | str] | str | None = None,
        label_config: str | Path | None = None,
    ) -> Self:
        """
        Build from a Label Studio export (JSON or JSON-MIN).

        Parameters
        ----------
        source : path or list of dict
            The file, or its parsed content.
        control, item_left, item_right, coin, stratum : str, optional
            The control that holds the answer (`new|old` where it was renamed) and fields of the tasks' data; guessed
            where there is one sensible choice. The coin is `evenhand_coin` or `coin` where present, else the task.
        answers, label_config : optional
            What answers mean, as `A is worse=right,Meh=skip` or a mapping; and the project's label config, with which
            an export is read as the service reads the project.

        Raises
        ------
        InputError
            For files that are not exports, fields that do not exist, and where many or one-sided answers are lost.
        """
        wanted = Wanted(control, (), item_left, item_right, coin, stratum, answers_from(answers))
        return cls._from_raw(read_export(source, wanted, label_config))

    @classmethod
    def _from_raw(cls, raw: RawAnswers) -> Self:
        """Check and code what a loader read."""
        where = raw.where
        _check_lengths(raw)
        annotator, annotators = code_column(raw.annotator, name="annotator", where=where)
        left, right, items = code_items(raw.left, raw.right, where=where)
        coin, coin_labels, coin_source = _code_coins(raw)
        stratum, strata = None, np.empty(0, dtype=object)
        if raw.stratum is not None:
            codes, strata = code_column(raw.stratum, name="stratum", where=where)
            stratum = codes.astype(np.int32)
        return cls(
            annotators=annotators,
            items=items,
            annotator=annotator.astype(np.int32),
            left=left.astype(np.int32),
            right=right.astype(np.int32),
            outcome=read_outcomes(raw.outcome, where=where),
            coin=coin,
            coin_source=coin_source,
            time=None if raw.time is None else read_times(raw.time, where=where),
            lead_time=None if raw.lead_time is None else read_lead_times(raw.lead_time, where=where),
            stratum=stratum,
            strata=strata,
            excluded=MappingProxyType(dict(raw.excluded)),
            skips=None if raw.skips is None else _code_skips(raw.skips, annotators, items, coin, coin_labels),
            coins=None if coin_source == "own" else coin_labels,
            features=raw.features,
        )

    def _with_likely_coin(self, source: Source, raw: RawAnswers) -> Self:
        """Where no coin is recorded, take the column that looks most like it for one."""
        if self.coin_source != "own":
            return self
        names = raw.unused[:MOST_COLUMNS]
        kept = np.ones(len(self), dtype=bool) if raw.kept is None else raw.kept
        others = source.frame(names, text=names) if names else pd.DataFrame(index=range(len(kept)))
        if len(others) != len(kept):  # a record gave several answers, or none
            return self
        others = others[kept].reset_index(drop=True)
        who, left, right = (codes.astype(np.int64) for codes in (self.annotator, self.left, self.right))
        found = likely_coin(who, left, right, others)
        if found is None:
            return self
        labels = np.array(found.labels, dtype=object)
        return replace(self, coin=found.code, coins=labels, coin_source="guessed", coin_column=found.name)

    def __len__(self) -> int:
        return int(self.outcome.size)

    @property
    def n_annotators(self) -> int:
        """Number of annotators who answered."""
        return int(self.annotators.size)

    @property
    def n_items(self) -> int:
        """Number of items that were compared."""
        return int(self.items.size)

    def __repr__(self) -> str:
        people = f"{self.n_annotators:,} annotators"
        return f"Comparisons({len(self):,} answers, {people}, {self.n_items:,} items, coins: {self.coin_source})"

    @property
    def text_length(self) -> NDArray[np.float64] | None:
        """(N,) characters of both texts, NaN where unknown; None where none are told."""
        told = self.features
        if told is None:
            return None
        if {"chars_left", "chars_right"} <= set(told):
            sides = [pd.to_numeric(told[f"chars_{side}"], errors="coerce") for side in ("left", "right")]
        elif {"text_left", "text_right"} <= set(told):
            sides = [told[f"text_{side}"].str.len() for side in ("left", "right")]
        else:
            return None
        return (sides[0] + sides[1]).to_numpy(dtype=np.float64, na_value=np.nan)

    def with_item_class(self, of: Mapping[Any, str]) -> Self:
        """Name classes of items for the audit, such as who wrote them (else guessed); ``""`` for those not named."""
        return replace(self, item_class=np.array([of.get(item, "") for item in self.items], dtype=object))

    def take(self, mask: NDArray[np.bool_] | NDArray[np.integer[Any]]) -> Self:
        """
        Keep some answers, coded anew so that every label still occurs; skips are not carried over.

        Parameters
        ----------
        mask : (N,) bool, or positions
            The answers to keep.
        """
        rows = np.flatnonzero(mask) if np.asarray(mask).dtype == bool else np.asarray(mask)
        if rows.size == 0:
            raise InputError("no answer is left after the selection; select at least one")
        raw = RawAnswers(
            annotator=self.annotator[rows],
            left=self.left[rows],
            right=self.right[rows],
            outcome=self.outcome[rows],
            coin=None if self.coin_source == "own" else self.coin[rows],
            time=None if self.time is None else self.time[rows],
            lead_time=None if self.lead_time is None else self.lead_time[rows],
            stratum=None if self.stratum is None else self.stratum[rows],
            excluded=self.excluded,
            features=None if self.features is None else self.features.iloc[rows].reset_index(drop=True),
        )
        part = type(self)._from_raw(raw)
        return replace(
            part,
            annotators=self.annotators[part.annotators.astype(np.int64)],
            items=self.items[part.items.astype(np.int64)],
            strata=self.strata[part.strata.astype(np.int64)],
            coin_source=self.coin_source,
            coin_column=self.coin_column,
            item_class=None if self.item_class is None else self.item_class[part.items.astype(np.int64)],
            coins=None if self.coins is None or part.coins is None else self.coins[part.coins.astype(np.int64)],
        )

    def with_items(self, items: pd.DataFrame) -> Self:
        """
        Add what is known of the items: a text, a number, a time or a family.

        Parameters
        ----------
        items : DataFrame
            One row per item, named by the index or a column `item`. A column `text` becomes `text_left` and
            `text_right` of every answer; items without a row have none. `class` names classes for the audit.
        """
        table = items.set_index("item") if "item" in items.columns else items
        if table.index.has_duplicates:
            twice = table.index[table.index.duplicated()][0]
            raise InputError(f"items: {twice!r} has more than one row; expected one row per item; remove the others")
        told = table.reindex(pd.Index(self.items, dtype=object))
        columns: dict[Hashable, Any] = {} if self.features is None else dict(self.features.items())
        for name in told.columns:
            values = told[name].to_numpy()
            columns |= {f"{name}_left": values[self.left], f"{name}_right": values[self.right]}
        made = replace(self, features=pd.DataFrame(columns))
        return made.with_item_class(told["class"].dropna().to_dict()) if "class" in told.columns else made

    def to_frame(self) -> pd.DataFrame:
        """Give the answers as a table that `from_frame` reads back."""
        columns: dict[str, Any] = {
            "annotator": self.annotators[self.annotator],
            "left": self.items[self.left],
            "right": self.items[self.right],
            "outcome": self.outcome,
        }
        if self.coin_source not in ("own", "guessed"):  # a guess does not become a record
            columns[self.coin_source] = self.coin if self.coins is None else self.coins[self.coin]
        if self.time is not None:
            columns["time"] = self.time
        if self.lead_time is not None:
            columns["lead_time"] = self.lead_time
        if self.stratum is not None:
            columns["stratum"] = self.strata[self.stratum]
        if self.features is not None:
            columns |= {str(name): values for name, values in self.features.items()}
        return pd.DataFrame(columns)


def _check_lengths(raw: RawAnswers) -> None:
    """Refuse empty data and columns of different lengths."""
    n = len(as_series(raw.outcome, name="outcome", where=raw.where))
    for name in ("annotator", "left", "right", "coin", "task", "time", "lead_time", "stratum"):
        values = getattr(raw, name)
        length = n if values is None else len(as_series(values, name=name, where=raw.where))
        if length != n:
            raise InputError(f"{raw.where}{name} has {length} values and outcome {n}; expected one of each per answer")
    if n == 0:
        left_out = ", ".join(f"{count} {reason}" for reason, count in raw.excluded.items() if count)
        raise InputError(
            f"{raw.where}there are no answers{f' (left out: {left_out})' if left_out else ''}; "
            "expected at least one comparison; check that the right file was given and that work has begun"
        )


def _code_coins(raw: RawAnswers) -> tuple[NDArray[np.int64], NDArray[np.object_], CoinSource]:
    """Take the recorded coin, else the task, else one coin per answer."""
    sources: tuple[tuple[CoinSource, Any], ...] = (("coin", raw.coin), ("task", raw.task))
    for source, values in sources:
        if values is None or as_series(values, name=source, where=raw.where).isna().all():
            continue
        codes, labels = code_column(values, name=source, where=raw.where)
        return codes, labels, source
    n = len(as_series(raw.outcome, name="outcome"))
    return np.arange(n, dtype=np.int64), np.empty(0, dtype=object), "own"


def _code_skips(
    raw: RawSkips,
    annotators: NDArray[np.object_],
    items: NDArray[np.object_],
    coin: NDArray[np.int64],
    coin_labels: NDArray[np.object_],
) -> Skips:
    """Code skips with the answers' labels; see `Skips` for what has none."""
    annotator = _positions(raw.annotator, annotators)
    left, right = _positions(raw.left, items), _positions(raw.right, items)
    n_coins = int(coin.max()) + 1
    if raw.coin is None or coin_labels.size == 0:
        coins = n_coins + np.arange(annotator.size, dtype=np.int64)
    else:
        coins = _positions(raw.coin, coin_labels)
        fresh, _ = pd.factorize(as_series(raw.coin, name="coin").to_numpy(dtype=object)[coins < 0])
        coins[coins < 0] = n_coins + fresh
    is_known = (left >= 0) & (right >= 0)
    return Skips(
        annotator[is_known].astype(np.int32),
        left[is_known].astype(np.int32),
        right[is_known].astype(np.int32),
        coins[is_known],
    )


def _positions(values: Any, labels: NDArray[np.object_]) -> NDArray[np.int64]:
    """Look labels up, -1 where unknown."""
    wanted = as_series(values, name="skips").to_numpy(dtype=object)
    return pd.Index(labels, dtype=object).get_indexer(pd.Index(wanted, dtype=object)).astype(np.int64)
