"""A demo project: a simulated crowd whose answers lie in the store as if Label Studio had sent them."""

import numpy as np
from numpy.typing import NDArray

from backend.domain import Batch, Comparison, Project, ProjectRef, Task
from backend.store import Store
from fdr_core.simulate import Simulated, small_team

ADDRESS = "demo"
TITLE = "Demo: a simulated crowd"
LABEL_CONFIG = (
    '<View><Pairwise name="preference" toName="left,right"/>'
    '<Text name="left" value="$left"/><Text name="right" value="$right"/></View>'
)
SEED, ANNOTATORS, BIASED, ANSWERS, ITEMS = 7, 40, 6, 80, 24
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


def load_demo(store: Store, *, requested_by: str | None = None) -> Project:
    """Load the crowd, once, and ask for a run.

    Of the forty, five click one side on every second answer, one always does, and one has only just begun.
    """
    project = store.register_project(ADDRESS, ProjectRef(1, 1), title=TITLE, label_config=LABEL_CONFIG, kind="demo")
    if project.seq == 0:
        tasks, answers = _crowd(store.clock())
        store.apply(project.id, Batch(tasks=tasks, comparisons=answers))
    store.name_annotators(project.id, {str(code + 1): (name, None) for code, name in enumerate(NAMES)})
    store.request_run(project.id, "demo", requested_by)
    return store.get_project(project.id)


def _crowd(now: float) -> tuple[list[Task], list[Comparison]]:
    """Tasks with one answer each, spread over two weeks up to now, in mixed order."""
    rng = np.random.default_rng(SEED)
    crowd = small_team(ANNOTATORS, BIASED, ANSWERS, rng=rng, bias=0.5, n_items=ITEMS)
    answers = crowd.comparisons
    outcome = _with_always(crowd)
    order = rng.permutation(_without_beginners_rest(crowd))
    label = _captions(rng)
    start = np.floor(now / 86_400.0) * 86_400.0 - DAYS * 86_400.0
    times = start + np.sort(rng.random(len(order))) * DAYS * 86_400.0
    tasks, rows = [], []
    for number, (k, at) in enumerate(zip(order, times, strict=True), start=1):
        left, right = (str(answers.items[side[k]]) for side in (answers.left, answers.right))
        person = int(answers.annotators[answers.annotator[k]])
        is_quick = bool(crowd.is_biased[answers.annotator[k]]) and rng.random() < 0.5
        seconds = float(rng.uniform(0.8, 2.5) if is_quick else rng.uniform(3.0, 20.0))
        moment = float(at)
        tasks.append(Task(number, left, right, label[left], label[right], None, None, True, moment))
        rows.append(
            Comparison(
                annotation_id=number,
                task_id=number,
                annotator_id=str(person + 1),
                left_item=left,
                right_item=right,
                coin=None,
                stratum=None,
                outcome=float(outcome[k]),
                status="answer",
                reason=None,
                ground_truth=False,
                lead_time=round(seconds, 2),
                created_at=moment,
                updated_at=moment,
            )
        )
    return tasks, rows


def _with_always(crowd: Simulated) -> NDArray[np.float64]:
    """The answers, those of the first who leans all turned to the own side."""
    person = int(np.flatnonzero(crowd.is_biased)[0])
    return np.where(crowd.comparisons.annotator == person, float(crowd.side[person]), crowd.comparisons.outcome)


def _without_beginners_rest(crowd: Simulated) -> NDArray[np.int64]:
    """Places of the answers that are kept: of the last who does not lean only the first few."""
    person = int(np.flatnonzero(~crowd.is_biased)[-1])
    dropped = np.flatnonzero(crowd.comparisons.annotator == person)[BEGINNER_ANSWERS:]
    return np.delete(np.arange(len(crowd.comparisons)), dropped)


def _captions(rng: np.random.Generator) -> dict[str, str]:
    """Texts for the items, in an order that does not give the truth away."""
    return {str(item): f"Photo: {TOPICS[place]}" for item, place in enumerate(rng.permutation(ITEMS))}
