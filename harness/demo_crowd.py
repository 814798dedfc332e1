"""The demo's crowd: who leans, which tasks there are, and what each person answers; all from one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from harness.label_studio import pairwise_result

ITEMS = 20
BIAS = 0.5
SHARPNESS = 3.0


@dataclass(frozen=True)
class Answer:
    """One person's answer to one task."""

    annotator: int
    side: str
    seconds: float


@dataclass(frozen=True)
class Task:
    """Two items, in the order that a coin gave them, and everybody's answers."""

    left: int
    right: int
    answers: tuple[Answer, ...]
    is_unique: bool = False

    def data(self) -> dict[str, str]:
        """Return what annotators see."""
        name = unique_answer if self.is_unique else caption
        return {"text1": name(self.left), "text2": name(self.right)}

    def imported(self, account: Sequence[int]) -> dict[str, Any]:
        """Return the task for an import, its answers given by the accounts of the annotators."""
        annotations = [
            {
                "result": pairwise_result(answer.side),
                "completed_by": account[answer.annotator],
                "ground_truth": False,
                "lead_time": answer.seconds,
            }
            for answer in self.answers
        ]
        return {"data": self.data(), "annotations": annotations}


@dataclass(frozen=True)
class Crowd:
    """People, of whom some click their own side on half of their answers."""

    seed: int
    n_annotators: int
    sides: dict[int, str]

    @classmethod
    def assemble(cls, seed: int, n_annotators: int = 40, n_biased: int = 6) -> Crowd:
        """Choose who leans, and to which side."""
        rng = random.Random(f"{seed}-people")
        biased = sorted(rng.sample(range(n_annotators), n_biased))
        return cls(seed, n_annotators, {person: rng.choice(["left", "right"]) for person in biased})

    def email(self, person: int) -> str:
        """Return a person's account; it does not tell who leans."""
        return f"annotator-{person + 1:02d}@example.com"

    def tasks(self, n_tasks: int, per_task: int) -> Iterator[Task]:
        """Yield tasks whose answers are spread evenly over the crowd."""
        rng = random.Random(f"{self.seed}-tasks")
        for chosen in self._turns(rng, n_tasks, per_task):
            left, right = rng.sample(range(ITEMS), 2)
            gap = quality(left) - quality(right)
            yield Task(left, right, tuple(self._answer(rng, person, gap) for person in chosen))

    def unique_tasks(self, n_tasks: int, per_task: int) -> Iterator[Task]:
        """Yield tasks as in RLHF: every prompt has two answers of its own, in one order that a coin gave."""
        rng = random.Random(f"{self.seed}-prompts")
        for number, chosen in enumerate(self._turns(rng, n_tasks, per_task)):
            pair = (2 * number, 2 * number + 1)
            left, right = rng.sample(pair, 2)
            gap = rng.gauss(0.0, 0.5)
            answers = tuple(self._answer(rng, person, gap) for person in chosen)
            yield Task(left, right, answers, is_unique=True)

    def _turns(self, rng: random.Random, n_tasks: int, per_task: int) -> Iterator[list[int]]:
        """Yield who answers each task, spread evenly over the crowd."""
        waiting: list[int] = []
        for _ in range(n_tasks):
            while len(set(waiting)) < per_task:
                waiting += rng.sample(range(self.n_annotators), self.n_annotators)
            chosen = list(dict.fromkeys(waiting))[:per_task]
            for person in chosen:
                waiting.remove(person)
            yield chosen

    def _answer(self, rng: random.Random, person: int, gap: float) -> Answer:
        own_side = self.sides.get(person)
        if own_side and rng.random() < BIAS:
            return Answer(person, own_side, round(rng.uniform(0.8, 2.5), 2))
        side = "left" if rng.random() < 1 / (1 + exp(-SHARPNESS * gap)) else "right"
        return Answer(person, side, round(rng.uniform(3, 20), 2))


def quality(item: int) -> float:
    """Return an item's true score, evenly spaced from -1 to 1."""
    return 2 * item / (ITEMS - 1) - 1


def unique_answer(item: int) -> str:
    """Return the text of an answer that occurs under one prompt only."""
    return f"Answer {'AB'[item % 2]} to prompt {item // 2 + 1}"


def caption(item: int) -> str:
    """Return an item's text; the letters hide the true order from the reader as from the method."""
    return f"Photo caption {chr(ord('A') + (item * 7) % ITEMS)}"
