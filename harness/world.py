"""Projects for the browser to look at: simulated crowds put into a store as if Label Studio had sent them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from evenhand.domain import Batch, Project, ProjectRef, RunResult, Task, Trigger, plain_answer
from evenhand.server.worker import Runs
from evenhand.store import Store

from fdr_core.simulate import small_team
from harness.label_configs import PAIRWISE

START = 1_790_000_000.0
#: What a run says of its methods, where nobody was judged.
UNSAID = {
    "not_assessable": 0,
    "decided_by": "exact",
    "exact_list": 0,
    "lbi_list": 0,
    "draws_done": 0,
    "draws_asked": 21,
    "differences": 0,
    "converged": True,
}
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
    "'\"><svg/onload=alert(1)>{{ 7*7 }}${7*7}",
    '=HYPERLINK("http://evil.example","click")',
    "שלום עולם ‮evil‬ مرحبا بالعالم",
    "👩‍👩‍👧‍👦 🏳️‍🌈 " * 8 + "end",
    "W" * 5000,
    "many words " * 454,
)


def register(store: Store, number: int, title: str, label_config: str = PAIRWISE) -> Project:
    return store.projects.register("http://127.0.0.1:9", ProjectRef(number, 1), title=title, label_config=label_config)


def simulated(
    store: Store,
    number: int,
    title: str,
    *,
    annotators: int = 60,
    biased: int = 8,
    answers: int = 60,
    bias: float = 0.6,
    seed: int = 1,
    hostile: bool = False,
) -> Project:
    """Register a project with a crowd; some texts are hostile if asked for."""
    project = register(store, number, HOSTILE[0] if hostile else title)
    rng = np.random.default_rng(seed)
    crowd = small_team(annotators, biased, answers, rng=rng, bias=bias)
    c = crowd.comparisons
    order = rng.permutation(len(c))
    labels = {str(item): _label(code, hostile) for code, item in enumerate(c.items)}
    tasks, rows = [], []
    for place, k in enumerate(order, start=1):
        left, right, at = str(c.items[c.left[k]]), str(c.items[c.right[k]]), START + 60.0 * place
        tasks.append(Task(place, left, right, labels[left], labels[right], None, None, True, at))
        rows.append(
            plain_answer(
                place,
                str(1 + c.annotator[k]),
                left,
                right,
                float(c.outcome[k]),
                at=at,
                lead_time=float(rng.uniform(1, 20)),
            )
        )
    for start in range(0, len(rows), 20_000):
        store.comparisons.apply(
            project.id, Batch(tasks=tasks[start : start + 20_000], comparisons=rows[start : start + 20_000])
        )
    names = {str(1 + code): (_name(code, hostile), f"person{code + 1}@example.com") for code in range(annotators)}
    store.annotators.name(project.id, names)
    return store.projects.get(project.id)


def _label(code: int, hostile: bool) -> str:
    return HOSTILE[code % len(HOSTILE)] if hostile else f"Caption {chr(65 + code % 26)}{code // 26 or ''}"


def _name(code: int, hostile: bool) -> str:
    return HOSTILE[code % len(HOSTILE)] if hostile else f"Person {code + 1:02d}"


def judge(store: Store, project: Project) -> None:
    """Let a worker do everything that waits."""
    store.runs.request(project.id, Trigger.MANUAL, "tests")
    worker = Runs(store, "tests")
    while worker.once():
        pass


def fail(store: Store, project: Project, error: str) -> None:
    """Leave a failed run behind."""
    store.runs.request(project.id, Trigger.MANUAL, "tests")
    claimed = store.runs.claim("tests", 60.0)
    assert claimed is not None
    store.runs.fail(claimed[0].id, claimed[1], error)


def many_annotators(store: Store, number: int, n: int) -> Project:
    """A finished run with many annotators, written without judging anybody."""
    project = register(store, number, f"{n:,} annotators")
    rng = np.random.default_rng(3)
    bias = rng.normal(0.0, 0.2, n)
    rows: list[Mapping[str, Any]] = [
        {
            "annotator": str(k + 1),
            "comparisons": 40,
            "left": int(20 + 15 * bias[k]) if abs(bias[k]) < 1 else 20,
            "right": 20,
            "ties": 0,
            "bias": float(bias[k]),
            "bias_low": float(bias[k] - 0.2),
            "bias_high": float(bias[k] + 0.2),
            "entry": float(abs(bias[k])),
            "lbi_share": float(abs(bias[k]) > 0.5),
            "p_value": float(np.exp(-10 * abs(bias[k]))),
            "match_ratio": 0.7,
            "q_value": float(np.exp(-5 * abs(bias[k]))),
            "finding": ("leans left" if bias[k] > 0 else "leans right") if abs(bias[k]) > 0.5 else "no lean seen",
            "flagged": bool(abs(bias[k]) > 0.5),
            "more_needed": 0,
        }
        for k in np.argsort(-np.abs(bias))
    ]
    store.runs.request(project.id, Trigger.MANUAL, "tests")
    claimed = store.runs.claim("tests", 60.0)
    assert claimed is not None
    run, lease = claimed
    data = {"answers": 40 * n, "annotators": n, "items": 0}
    flagged = sum(bool(row["flagged"]) for row in rows)
    store.runs.finish(
        run.id,
        lease,
        RunResult(
            seq=0,
            seed=0,
            config={"q": 0.1, "min_bias": 0.1},
            versions={},
            audit={"construction": "flip", "reasons": ["Sides look random."], "remedies": [], "figures": {}},
            guarantee="FDR, proven: Of the entries on such lists at most about 1 in 10 is wrong.",
            summary={"data": data, "flagged": flagged, "persistent": 0, "warned": 0, **UNSAID},
            timings={},
            data_hash="0" * 64,
            annotators=rows,
        ),
    )
    return project
