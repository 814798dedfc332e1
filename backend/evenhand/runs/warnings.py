"""Early warnings follow the audit: given where it lets anybody be judged, taken back with a note where it does not."""

import math
from collections.abc import Mapping, Sequence

from evenhand.domain import Project, StoredEvidence
from evenhand.store import Store
from fdr_core.live import early_warnings, may_warn

PROBLEM = "warnings_withdrawn"


def due_warnings(evidence: Mapping[str, StoredEvidence], q: float) -> set[str]:
    """Annotators whom e-BH finds on the current e-values and who have no warning yet."""
    rows = list(evidence.values())
    due = early_warnings([math.exp(min(row.log_e, 700.0)) for row in rows], q)
    return {row.annotator_id for row, is_due in zip(rows, due, strict=True) if is_due and row.warned_at is None}


def audit_lets_warn(store: Store, project_id: int) -> bool:
    """Whether the audit of the last run allows warnings; before the first run there are none."""
    run = store.runs.latest(project_id)
    return may_warn((run.audit or {}).get("how") if run else None)


def settle_warnings(store: Store, project: Project, how: str | None, q: float, reasons: Sequence[str] = ()) -> None:
    """Follow a new audit: give the warnings that waited for it, or withdraw those given.

    The flags themselves go with the run that is about to be stored; here they are counted for the note.
    """
    if may_warn(how):
        _, evidence = store.live.get(project.id)
        store.live.warn(project.id, due_warnings(evidence, q), store.clock())
    withdrawn = 0 if may_warn(how) else store.live.withdraw(project.id)
    flags = len(store.flags.all(project.id)) if how in (None, "none") else 0
    if withdrawn or flags:
        _note(store, project, withdrawn, flags, reasons)
    elif how not in (None, "none"):
        store.problems.resolve(project.id, PROBLEM)


def _note(store: Store, project: Project, withdrawn: int, flags: int, reasons: Sequence[str]) -> None:
    counted = [_plural(withdrawn, "early warning"), _plural(flags, "lasting flag")]
    because = reasons[-1] if reasons else "There are no answers to judge."
    store.problems.open(
        project.id,
        PROBLEM,
        f"{' and '.join(filter(None, counted))} withdrawn: {because}",
        f"Nobody is accused meanwhile. {sides_remedy(project)}",
    )


def sides_remedy(project: Project) -> str:
    """The command that tells how sides were assigned."""
    if project.kind != "comparison":
        return "Say how sides were assigned, in the project's settings."
    return f"Say how sides were assigned: `evenhand connect {project.ls_project_id} --sides shuffled` (or prepared)."


def _plural(number: int, word: str) -> str:
    return "" if not number else f"{number} {word}{'s' if number != 1 else ''}"
