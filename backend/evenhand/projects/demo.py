"""Demo projects: simulated crowds whose answers lie in the store as if Label Studio had sent them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.domain import Batch, Comparison, Project, ProjectRef, Task, Trigger, plain_answer
from evenhand.errors import NotFoundError
from evenhand.project_config import ProjectConfig
from evenhand.store import Store

if TYPE_CHECKING:
    from fdr_core.simulate import Simulated

ADDRESS = "demo"
TITLE = "Demo: a simulated crowd"
LABEL_CONFIG = (
    '<View><Pairwise name="preference" toName="left,right"/>'
    '<Text name="left" value="$left"/><Text name="right" value="$right"/></View>'
)
# A seed of ordinary luck that shows most findings; seed 7 is one of the 2 % with four false flags and more.
SEED, ANNOTATORS, BIASED, ANSWERS, ITEMS = 9, 40, 6, 80, 24
DAYS = 14.0
BEGINNER_ANSWERS = 2
NAMES = (
    "Ada", "Bram", "Chioma", "Dilnoza", "Emeka", "Farah", "Goran", "Hana", "Imani", "Jonas", "Kaito", "Leila", "Mateo",
    "Nadia", "Oksana", "Priya", "Quentin", "Rosa", "Samir", "Tove", "Usha", "Viktor", "Wanjiru", "Ximena", "Yusuf",
    "Zofia", "Anouk", "Bilal", "Carmen", "Duc", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jamal", "Katya", "Luca",
    "Mei", "Noor",
)  # fmt: skip
TOPICS = (
    "sunset over a harbour", "cat on a windowsill", "rainy street at night", "bowl of ramen", "mountain hut in snow",
    "child with a kite", "old bicycle", "market stall", "lighthouse", "city from above", "forest path", "steam train",
    "library reading room", "desert road", "fishing boats", "jazz trio on stage", "greenhouse", "football at dusk",
    "bakery window", "bridge in fog", "dog on the beach", "street mural", "orchard in spring", "night sky",
)  # fmt: skip


PROMPTS = (
    "Explain tides to a child", "Write a polite refusal", "Summarise this contract clause", "Plan a week of dinners",
    "Translate a proverb", "Debug a loop that never ends", "Suggest a name for a bakery", "Compare two phones",
    "Tell a story about a lighthouse", "Answer a customer's complaint",
)  # fmt: skip
DAY = 86_400.0


@dataclass(frozen=True)
class Demo:
    """A simulated project: where it is registered, its settings, and what makes its tasks and answers."""

    number: int
    title: str
    config: Mapping[str, Any]
    people: int
    crowd: Callable[[float], tuple[list[Task], list[Comparison]]]


def load_demo(store: Store, kind: str = "photos", *, requested_by: str | None = None) -> Project:
    """Load one of the DEMOS, once, and ask for a run."""
    if kind not in DEMOS:
        raise NotFoundError(f"there is no demo {kind[:40]!r}; there are {', '.join(DEMOS)}")
    demo = DEMOS[kind]
    reference = ProjectRef(demo.number, 1)
    project = store.projects.register(
        ADDRESS,
        reference,
        title=demo.title,
        label_config=LABEL_CONFIG,
        kind="demo",
        config=ProjectConfig.model_validate(demo.config),
    )
    if project.seq == 0:
        tasks, answers = demo.crowd(store.clock())
        store.comparisons.apply(project.id, Batch(tasks=tasks, comparisons=answers))
    names = {str(code + 1): (name, None) for code, name in enumerate(NAMES[: demo.people])}
    store.annotators.name(project.id, names)
    store.runs.request(project.id, Trigger.DEMO, requested_by)
    return store.projects.get(project.id)


def _photos(now: float) -> tuple[list[Task], list[Comparison]]:
    """Of forty, five click one side on every second answer, one always does, and one has only just begun.

    Tasks have one answer each, spread over two weeks up to now, in mixed order.
    """
    from fdr_core.simulate import small_team  # not above: pages that name the demos need no numerics

    rng = np.random.default_rng(SEED)
    crowd = small_team(ANNOTATORS, BIASED, ANSWERS, rng=rng, bias=0.5, n_items=ITEMS)
    answers = crowd.comparisons
    outcome = _with_always(crowd)
    order = rng.permutation(_without_beginners_rest(crowd))
    label = _captions(rng)
    times = _moments(len(order), now, rng)
    tasks, rows = [], []
    for number, (k, at) in enumerate(zip(order, times, strict=True), start=1):
        left, right = (str(answers.items[side[k]]) for side in (answers.left, answers.right))
        person = int(answers.annotators[answers.annotator[k]])
        is_quick = bool(crowd.is_biased[answers.annotator[k]]) and rng.random() < 0.5
        seconds = float(rng.uniform(0.8, 2.5) if is_quick else rng.uniform(3.0, 20.0))
        tasks.append(Task(number, left, right, label[left], label[right], None, None, True, float(at)))
        rows.append(_answer(number, number, person, (left, right), float(outcome[k]), seconds, float(at)))
    return tasks, rows


def _responses(now: float) -> tuple[list[Task], list[Comparison]]:
    """Two responses to each of 300 prompts, shuffled per task; of thirty people six lean left."""
    from fdr_core.simulate import unique_pairs

    rng = np.random.default_rng(SEED)
    crowd = unique_pairs(rng=rng)
    answers = crowd.comparisons
    order = rng.permutation(len(answers))
    start = _moments(1, now, rng)[0] - DAYS * DAY
    pairs: dict[int, tuple[str, str]] = {}
    rows = []
    for number, (k, at) in enumerate(zip(order, _moments(len(order), now, rng), strict=True), start=1):
        left, right = (str(answers.items[side[k]]) for side in (answers.left, answers.right))
        task = int(answers.coin[k]) + 1
        pairs[task] = (left, right)
        person = int(answers.annotators[answers.annotator[k]])
        rows.append(
            _answer(number, task, person, (left, right), float(answers.outcome[k]), rng.uniform(5, 40), float(at))
        )
    tasks = [
        Task(task, left, right, f"{_prompt(task)}: A", f"{_prompt(task)}: B", None, None, True, start)
        for task, (left, right) in sorted(pairs.items())
    ]
    return tasks, rows


def _prompt(task: int) -> str:
    return f"{PROMPTS[task % len(PROMPTS)]} ({task})"


def _moments(size: int, now: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Moments spread over two weeks up to today."""
    start = np.floor(now / DAY) * DAY - DAYS * DAY
    return np.asarray(start + np.sort(rng.random(size)) * DAYS * DAY)


def _answer(
    number: int, task: int, person: int, pair: tuple[str, str], outcome: float, seconds: float, at: float
) -> Comparison:
    return plain_answer(number, str(person + 1), *pair, outcome, at=at, task=task, lead_time=round(float(seconds), 2))


def _with_always(crowd: Simulated) -> NDArray[np.float64]:
    """The answers; those of the first annotator who leans all go to that annotator's side."""
    person = int(np.flatnonzero(crowd.is_biased)[0])
    return np.where(crowd.comparisons.annotator == person, float(crowd.side[person]), crowd.comparisons.outcome)


def _without_beginners_rest(crowd: Simulated) -> NDArray[np.int64]:
    """Positions of the answers that are kept; of the last annotator who does not lean, only the first few."""
    person = int(np.flatnonzero(~crowd.is_biased)[-1])
    dropped = np.flatnonzero(crowd.comparisons.annotator == person)[BEGINNER_ANSWERS:]
    return np.delete(np.arange(len(crowd.comparisons)), dropped)


def _captions(rng: np.random.Generator) -> dict[str, str]:
    """Texts for the items, in an order that does not give the truth away."""
    return {str(item): f"Photo: {TOPICS[place]}" for item, place in enumerate(rng.permutation(ITEMS))}


#: The demo projects by name.
DEMOS: Mapping[str, Demo] = {
    "photos": Demo(1, TITLE, {}, ANNOTATORS, _photos),
    "rlhf": Demo(2, "Demo: two responses per prompt (RLHF)", {"sides": "random"}, 30, _responses),
}
