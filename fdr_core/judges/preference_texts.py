"""The texts behind the items of a file: what was answered to which prompt."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fdr_core import InputError
from fdr_core.inputs import label_studio
from fdr_core.inputs.item_keys import item_key
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


def find_texts(path: Path, *, texts: Path | None, prompt: str | None, limits: Limits | None = None) -> Texts:
    """Read texts and prompts from the file itself, and from a table (item, text and perhaps prompt) beside it."""
    source = Source(path, limits=limits)
    recognised = detect_format(source).format
    if texts is None and recognised not in _TEXT_FORMATS:
        raise InputError(
            f"{path}: items of the format {recognised} are models or conditions, which answer each prompt with another "
            "text; give a table with the columns item and text (--texts), or export comparisons of texts"
        )
    found = Texts()
    for left, right, words in _shown(source, recognised, prompt):
        one, two = item_key(left), item_key(right)
        found.text |= {one: _as_text(left), two: _as_text(right)}
        if words is not None:
            found.prompt[frozenset((one, two))] = _as_text(words)
    if texts is not None:
        _add_table(found, Source(texts, limits=limits))
    return found


def _shown(source: Source, recognised: str, prompt: str | None) -> Iterator[tuple[Any, Any, Any]]:
    """Left, right and prompt of every task or row."""
    if recognised.startswith(("label-studio", "argilla")):
        tasks = [_data(record) for record in source.records]
        left, right = label_studio.item_fields(tasks, where=source.where)
    else:
        tasks = source.records
        left, right = next((pair for pair in _SIDES if pair[0] in source.names), _SIDES[0])
    name = _prompt_field(tasks, prompt, source.where)
    for task in tasks:
        if task.get(left) is not None and task.get(right) is not None:
            yield task[left], task[right], task.get(name) if name else None


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
