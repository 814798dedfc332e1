"""The texts behind the items of a file: what was answered to which prompt."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from fdr_core import InputError
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.label_studio.exports import shown_items
from fdr_core.inputs.label_studio.formats import wanted_of
from fdr_core.inputs.label_studio.seen import item_fields
from fdr_core.inputs.registry import detect_format
from fdr_core.inputs.source import Limits, Source

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
