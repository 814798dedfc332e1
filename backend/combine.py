"""Group commit: callers that arrive while a write is under way share the next one."""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Ticket(Generic[Item, Result]):
    """One caller's item and what became of it."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.is_done = False
        self.result: Result | None = None
        self.error: Exception | None = None


class Combiner(Generic[Item, Result]):
    """Hands items to `apply` in groups; every caller waits for its own item's durable result.

    A commit costs the same for one event as for ten, so under load the groups grow instead of the queue.
    """

    def __init__(self, apply: Callable[[Sequence[Item]], Sequence[Result]], *, largest: int = 200) -> None:
        self._apply = apply
        self._largest = largest
        self._waiting: list[_Ticket[Item, Result]] = []
        self._list_lock = threading.Lock()
        self._turn = threading.Lock()

    def submit(self, item: Item) -> Result:
        """Apply an item, possibly together with others; raises what applying it raised."""
        ticket: _Ticket[Item, Result] = _Ticket(item)
        with self._list_lock:
            self._waiting.append(ticket)
        while not ticket.is_done:
            with self._turn:
                if not ticket.is_done:
                    self._lead()
        if ticket.error is not None:
            raise ticket.error
        return ticket.result  # type: ignore[return-value]

    def _lead(self) -> None:
        """Apply everything that waits now, as one group."""
        with self._list_lock:
            group, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
        if not self._try(group) and len(group) > 1:
            # One bad item must not fail its neighbours: take them one by one.
            for ticket in group:
                self._try([ticket])
        for ticket in group:
            ticket.is_done = True

    def _try(self, group: Sequence[_Ticket[Item, Result]]) -> bool:
        """Apply a group; whether it succeeded."""
        try:
            results = self._apply([ticket.item for ticket in group])
        except Exception as error:
            for ticket in group:
                ticket.error = error
            return False
        for ticket, result in zip(group, results, strict=True):
            ticket.result, ticket.error = result, None
        return True
