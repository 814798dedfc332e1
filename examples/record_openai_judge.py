"""Record an LLM judge behind an OpenAI-style client: a coin decides every order, and the log tells whether it leans.

python examples/record_openai_judge.py        with a pretended client, so that nothing is called

With a real one: `from openai import OpenAI; record(OpenAI(), "gpt-4o-mini", pairs, "judge.jsonl")`.
"""

import random
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fdr_core import Comparisons, detect
from fdr_core.judges.gate import gate
from fdr_core.judges.record import Recorder

PROMPT = """Which answer is better? Reply with A, B, or C for a tie.

[A]
{first}

[B]
{second}"""


def record(client: Any, model: str, pairs: Iterable[Mapping[str, str]], log: str | Path) -> None:
    """Ask the model about every pair, in an order that a recorded coin decides."""

    def ask(first: str, second: str) -> str:
        messages = [{"role": "user", "content": PROMPT.format(first=first, second=second)}]
        reply = client.chat.completions.create(model=model, messages=messages, temperature=0)
        return str(reply.choices[0].message.content)

    recorder = Recorder(log, judge=model)
    for pair in pairs:
        recorder.compare(pair, ask)


class PretendedClient:
    """Answers as an API would, and prefers what it reads first in four of ten cases."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, *, model: str, messages: list[dict[str, str]], temperature: float) -> SimpleNamespace:
        first, second = (part.split("\n", 1)[1] for part in messages[0]["content"].split("[A]")[1].split("[B]"))
        says = "A" if self._rng.random() < 0.4 or len(first) > len(second) else "B"
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=says))])


if __name__ == "__main__":
    rng = random.Random(0)
    answers = {f"model-{k}": "word " * (k + 1) for k in range(8)}
    pairs = [{name: answers[name] for name in rng.sample(sorted(answers), 2)} for _ in range(300)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "judge.jsonl"
        record(PretendedClient(1), "pretended-model", pairs, log)
        comparisons = Comparisons.from_file(log)
        print(gate(comparisons)[0])
        print(detect(comparisons))
