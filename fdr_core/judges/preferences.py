"""From comparisons to clean preference pairs: who wins each pair once the leans are taken out, and how surely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from fdr_core import InputError
from fdr_core.comparisons import Comparisons
from fdr_core.detection import Detection
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.label_studio.exports import shown_items
from fdr_core.inputs.label_studio.formats import wanted_of
from fdr_core.inputs.label_studio.seen import item_fields
from fdr_core.inputs.registry import detect_format
from fdr_core.inputs.source import Limits, Source
from fdr_core.types import Floats, Ints


@dataclass(frozen=True)
class Preferences:
    """
    Pairs and their lean-corrected winners.

    Attributes
    ----------
    table : DataFrame
        chosen, rejected (labels of items), margin (difference of the corrected scores), probability (that the order is
        right, given the answers), answers, votes (share of answers for the chosen), turned (whether a plain majority
        had it the other way round).
    again : DataFrame
        The pairs to label again: those less certain than asked for, least certain first, with the reason.
    """

    table: pd.DataFrame
    again: pd.DataFrame


def preferences(comparisons: Comparisons, detection: Detection, *, min_probability: float = 0.75) -> Preferences:
    """
    Settle every pair that was compared.

    Parameters
    ----------
    comparisons : Comparisons
        The answers.
    detection : Detection
        What `detect` found in them; its ranking takes the leans of the flagged out.
    min_probability : float
        Less certain pairs go to the list to label again; 0.5 keeps all.

    Returns
    -------
    Preferences
    """
    pairs, code = _pairs(comparisons)
    score, error = _scores(comparisons, detection)
    margin = score[pairs[:, 0]] - score[pairs[:, 1]]
    # The errors of two items may be opposed (they are, in pairs of their own), so their sum is the safe bound.
    spread = error[pairs[:, 0]] + error[pairs[:, 1]]
    table = _table(comparisons, pairs, code, margin, norm.cdf(np.abs(margin) / np.maximum(spread, 1e-12)))
    is_sure = (table["probability"] >= min_probability) & (table["margin"] > 0)
    again = table[~is_sure].sort_values("probability", kind="stable", ignore_index=True)
    reason = np.where(again["turned"], "the leans of flagged annotators had decided it", "too close to call")
    return Preferences(table[is_sure].reset_index(drop=True), again.assign(reason=reason))


def _pairs(comparisons: Comparisons) -> tuple[Ints, Ints]:
    """Unordered pairs of items, and the pair of every answer."""
    ends = np.stack([comparisons.left, comparisons.right], axis=1).astype(np.int64)
    pairs, code = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    return pairs, code.ravel()


def _scores(comparisons: Comparisons, detection: Detection) -> tuple[Floats, Floats]:
    """Corrected score and its standard error of every item."""
    ranking = detection.ranking.set_index("item").loc[list(comparisons.items)]
    return ranking["score"].to_numpy(dtype=np.float64), ranking["se"].to_numpy(dtype=np.float64)


def _table(comparisons: Comparisons, pairs: Ints, code: Ints, margin: Floats, probability: Floats) -> pd.DataFrame:
    n = len(pairs)
    towards_first = np.where(comparisons.left == pairs[code, 0], 1.0, -1.0) * comparisons.outcome
    answers = np.bincount(code, minlength=n)
    votes = np.bincount(code, np.sign(towards_first), minlength=n)
    is_first = margin >= 0
    chosen = np.where(is_first, pairs[:, 0], pairs[:, 1])
    rejected = np.where(is_first, pairs[:, 1], pairs[:, 0])
    share = (1 + np.where(is_first, votes, -votes) / answers) / 2
    return pd.DataFrame(
        {
            "chosen": comparisons.items[chosen],
            "rejected": comparisons.items[rejected],
            "margin": np.abs(margin),
            "probability": probability,
            "answers": answers,
            "votes": share,
            "turned": share < 0.5,
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
