"""Problems that solved themselves leave the list."""

from evenhand.store import Store


def resolve_solved(store: Store) -> None:
    """Close problems of the service as a whole whose cause is gone."""
    general = {problem.code for problem in store.problems.find() if problem.project_id is None}
    if "webhook_unauthorized" in general and _events_are_taken_again(store):
        store.problems.resolve(None, "webhook_unauthorized")


def _events_are_taken_again(store: Store) -> bool:
    """Whether an event was accepted after the last one that was refused."""
    last = {"accepted": 0.0, "unauthorized": 0.0}
    for row in store.events.counts():
        if row["outcome"] in last:
            last[row["outcome"]] = max(last[row["outcome"]], float(row["last_at"]))
    return last["accepted"] > last["unauthorized"]


def resolve_read(store: Store, project_id: int, *, newest: float | None, ahead: float) -> None:
    """After a pull: close what it no longer sees, times in the future."""
    if newest is None or newest <= store.clock() + ahead:
        store.problems.resolve(project_id, "clock_skew")
