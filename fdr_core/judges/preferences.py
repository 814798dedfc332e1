"""From comparisons to preference pairs that train: who wins each pair, how surely, and what its votes are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

from fdr_core import InputError
from fdr_core.audit import PLACED
from fdr_core.codes import distinct_partners
from fdr_core.comparisons import Comparisons
from fdr_core.detection import Detection
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.label_studio.exports import shown_items
from fdr_core.inputs.label_studio.formats import wanted_of
from fdr_core.inputs.label_studio.seen import item_fields
from fdr_core.inputs.registry import detect_format
from fdr_core.inputs.source import Limits, Source
from fdr_core.types import Floats, Ints, Mask

#: How often two annotators agree about a pair, where the data have no two votes on one.
AGREEMENT = 0.8
#: Pairs with two votes or more from which their own agreement is used; and the range it is held to.
_FEWEST_PAIRS, _RANGE = 30, (0.55, 0.98)
#: Nobody's votes count for nothing.
_MOST_LEAN = 0.95


@dataclass(frozen=True)
class Preferences:
    """
    Pairs and their winners with the leans taken out.

    Attributes
    ----------
    table : DataFrame
        chosen, rejected (labels of items), soft_label (probability that somebody without a lean prefers the chosen),
        votes_chosen, votes_rejected (as given; a tie is half of either), weight (votes, those towards a flagged
        annotator's side counted for what they tell), vote_share (of that weight, the chosen's part), margin
        (difference of the corrected scores), probability (that the order of the two is right, given the answers),
        turned (whether a plain majority had it the other way round).
    again : DataFrame
        The pairs to label again: those less certain than asked for, least certain first, with the reason.
    reliability : float
        The soft label of a pair with one vote.
    note : str
        Where the sides were stated to be random and the data speak against it: that nothing was taken out.
    """

    table: pd.DataFrame
    again: pd.DataFrame
    reliability: float
    note: str = ""

    def certain(self, min_probability: float) -> pd.DataFrame:
        """The pairs whose order is at least so certain."""
        return self.table[_is_certain(self.table, min_probability)].reset_index(drop=True)


def preferences(comparisons: Comparisons, detection: Detection, *, min_probability: float = 0.75) -> Preferences:
    """
    Weigh every pair that was compared.

    A vote towards the side that a flagged annotator clicks with probability c counts ``(1 - c) / (1 + c)``, the
    probability that it was judged, all others 1. With S of n such votes for an item and ``Beta(k, k)`` preferences,
    as the votes' own agreement has them, the soft label is ``(S + 2 k m) / (n + 2 k)``; m is one half, or what the
    items' other pairs say.

    Parameters
    ----------
    comparisons : Comparisons
        The answers.
    detection : Detection
        What `detect` found in them.
    min_probability : float
        Pairs whose order is less certain are listed to be labelled again.

    Returns
    -------
    Preferences
    """
    pairs, code = _pairs(comparisons)
    is_refuted = detection.parameters["sides"] == "random" and detection.audit.found == PLACED
    vote = np.where(comparisons.left == pairs[code, 0], 1.0, -1.0) * comparisons.outcome
    weight = np.ones(len(vote)) if is_refuted else _weights(comparisons, detection)
    k = _prior(code, vote, weight)
    score, error = _scores(comparisons, detection, "raw_score" if is_refuted else "score")
    margin = score[pairs[:, 0]] - score[pairs[:, 1]]
    n = np.bincount(code, weight)
    # What else is known of the pair; a pair of its own is known by its votes alone.
    met = distinct_partners(np.concatenate([pairs[:, 0], pairs[:, 1]]), np.tile(np.arange(len(pairs)), 2), len(score))
    is_linked: Mask = np.asarray((met[pairs] > 1).all(axis=1))
    prior = np.where(is_linked, expit(margin), 0.5)
    label = (np.bincount(code, weight * (1 + vote) / 2) + 2 * k * prior) / (n + 2 * k)
    # The errors of two items may be opposed (they are, in pairs of their own), so their sum is the safe bound.
    probability = ndtr(np.abs(margin) / np.maximum(error[pairs[:, 0]] + error[pairs[:, 1]], 1e-12))
    table = _table(comparisons, pairs, code, vote, margin, label).assign(weight=n, probability=probability)
    share = np.bincount(code, weight * (1 + vote) / 2) / n
    table["vote_share"] = np.where(table["chosen"] == comparisons.items[pairs[:, 0]], share, 1 - share)
    again = table[~_is_certain(table, min_probability)].sort_values("probability", kind="stable", ignore_index=True)
    reason = np.where(again["turned"], "the leans of flagged annotators had decided it", "too close to call")
    note = (
        "Sides were stated to be random and the data speak against it: no lean was taken out of the votes."
        if is_refuted
        else ""
    )
    return Preferences(table, again.assign(reason=reason), (1 + k) / (1 + 2 * k), note)


def _is_certain(table: pd.DataFrame, least: float) -> pd.Series[bool]:
    return (table["probability"] >= least) & (table["margin"] > 0) & (table["soft_label"] > 0.5)


def _pairs(comparisons: Comparisons) -> tuple[Ints, Ints]:
    """Unordered pairs of items, and the pair of every answer."""
    ends = np.stack([comparisons.left, comparisons.right], axis=1).astype(np.int64)
    pairs, code = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    return pairs, code.ravel()


def _weights(comparisons: Comparisons, detection: Detection) -> Floats:
    """What every vote counts: the probability that it was judged and not clicked."""
    rows = detection.annotators.set_index("annotator").loc[list(comparisons.annotators)]
    lean = np.where(rows["flagged"], rows["bias"].to_numpy(dtype=np.float64), 0.0)[comparisons.annotator]
    c = np.minimum(np.abs(lean), _MOST_LEAN)
    return np.asarray(np.where(comparisons.outcome * lean > 0, (1 - c) / (1 + c), 1.0))


def _prior(code: Ints, vote: Floats, weight: Floats) -> float:
    """``k`` of the Beta distribution under which two votes on a pair agree as often as they do here."""
    one, two = np.bincount(code, weight * (1 + vote) / 2), np.bincount(code, weight * (1 - vote) / 2)
    total, square = one + two, np.bincount(code, weight**2 * (1 + vote**2) / 2)
    met = total**2 - np.bincount(code, weight**2)
    several = met > 1e-9
    agreement = AGREEMENT
    if int(several.sum()) >= _FEWEST_PAIRS:
        agreement = float(((one**2 + two**2 - square)[several]).sum() / met[several].sum())
    agreement = float(np.clip(agreement, *_RANGE))
    return (1 - agreement) / (2 * agreement - 1)


def _scores(comparisons: Comparisons, detection: Detection, column: str) -> tuple[Floats, Floats]:
    """Score and its standard error of every item."""
    ranking = detection.ranking.set_index("item").loc[list(comparisons.items)]
    return ranking[column].to_numpy(dtype=np.float64), ranking["se"].to_numpy(dtype=np.float64)


def _table(
    comparisons: Comparisons, pairs: Ints, code: Ints, vote: Floats, margin: Floats, label: Floats
) -> pd.DataFrame:
    first, second = (np.bincount(code, (1 + sign * np.sign(vote)) / 2) for sign in (1, -1))
    is_first = (label > 0.5) | ((label == 0.5) & (margin >= 0))
    chosen = np.where(is_first, pairs[:, 0], pairs[:, 1])
    rejected = np.where(is_first, pairs[:, 1], pairs[:, 0])
    votes = np.where(is_first, first, second), np.where(is_first, second, first)
    return pd.DataFrame(
        {
            "chosen": comparisons.items[chosen],
            "rejected": comparisons.items[rejected],
            "soft_label": np.where(is_first, label, 1 - label),
            "votes_chosen": votes[0],
            "votes_rejected": votes[1],
            "margin": np.where(is_first, margin, -margin),
            "turned": votes[0] < votes[1],
        }
    )


#: Formats in which an item is one text, whatever it was compared with.
_TEXT_FORMATS = ("columns", "crowd-kit", "recorder", "label-studio", "label-studio-min", "argilla")
_PROMPTS = ("prompt", "instruction", "question", "input")
_SIDES = (("left", "right"), ("shown_first", "shown_second"))

Pair = frozenset[str]


@dataclass
class Texts:
    """Texts by item, and prompts by pair of items."""

    text: dict[str, str] = field(default_factory=dict)
    prompt: dict[Pair, str] = field(default_factory=dict)

    def of(self, item: Any) -> str:
        """The text of an item: its own label where nothing longer is known."""
        return self.text.get(str(item), str(item))

    def prompt_of(self, one: Any, two: Any) -> str:
        """The prompt of a pair, empty where none is known."""
        return self.prompt.get(frozenset((str(one), str(two))), "")


def find_texts(
    path: Path,
    *,
    texts: Path | None,
    prompt: str | None,
    limits: Limits | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Texts:
    """Read texts and prompts from the file itself, and from a table (item, text and perhaps prompt) beside it."""
    source = Source(path, limits=limits)
    recognised = detect_format(source).format
    if texts is None and recognised not in _TEXT_FORMATS:
        raise InputError(
            f"{path}: items of the format {recognised} are models or conditions, which answer each prompt with another "
            "text; give a table with the columns item and text (--texts), or export comparisons of texts"
        )
    found = Texts()
    for shown, words in _shown(source, recognised, prompt, fields or {}):
        keys = [item_key(content) for content in shown]
        found.text |= {key: _as_text(content) for key, content in zip(keys, shown, strict=True)}
        if words is not None:
            found.prompt |= {frozenset(pair): _as_text(words) for pair in combinations(keys, 2)}
    if texts is not None:
        _add_table(found, Source(texts, limits=limits))
    return found


def _shown(
    source: Source, recognised: str, prompt: str | None, fields: Mapping[str, Any]
) -> Iterator[tuple[list[Any], Any]]:
    """Contents of the items, and the prompt, of every task or row."""
    if recognised.startswith("label-studio"):
        pages = list(shown_items(source.records, *wanted_of(fields), where=source.where))
    else:
        tasks: list[Mapping[str, Any]] = [_data(record) for record in source.records]
        is_argilla = recognised == "argilla"
        sides = item_fields(tasks, where=source.where) if is_argilla else _columns(source)
        pages = [(task, [task.get(side) for side in sides]) for task in tasks]
    name = _prompt_field([task for task, _ in pages], prompt, source.where)
    for task, shown in pages:
        if all(content is not None for content in shown):
            yield shown, task.get(name) if name else None


def _columns(source: Source) -> tuple[str, str]:
    return next((pair for pair in _SIDES if pair[0] in source.names), _SIDES[0])


def _data(record: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = record.get("data") or record.get("fields")
    return inner if isinstance(inner, Mapping) else record


def _prompt_field(tasks: list[Mapping[str, Any]], prompt: str | None, where: str) -> str | None:
    names = set().union(*(task.keys() for task in tasks[:50])) if tasks else set()
    if prompt is not None and prompt not in names:
        raise InputError(f"{where}there is no field {prompt}; found: {', '.join(sorted(names))}; check --prompt")
    return prompt or next((name for name in _PROMPTS if name in names), None)


def _add_table(found: Texts, table: Source) -> None:
    if not {"item", "text"} <= set(table.names):
        raise InputError(f"{table.where}expected the columns item and text; found: {', '.join(table.names)}")
    prompts: dict[str, str] = {}
    for record in table.records:
        found.text[str(record["item"])] = _as_text(record["text"])
        if record.get("prompt") is not None:
            prompts[str(record["item"])] = _as_text(record["prompt"])
    by_prompt: dict[str, list[str]] = {}
    for item, words in prompts.items():
        by_prompt.setdefault(words, []).append(item)
    for words, items in by_prompt.items():
        found.prompt |= {frozenset((one, two)): words for one in items for two in items if one < two}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else item_key(value)
