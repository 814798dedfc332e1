"""Group commit: callers that arrive while a write is under way share the next one."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """Hands items to `apply` in groups; every caller waits for its own item's durable result.

    A commit costs the same for one event as for ten, so under load the groups grow instead of the queue. An error of a
    kind that is `fatal` is nobody's own: it fails the group, all who wait, and for `pause` seconds all who come.
    """

    def __init__(
        self,
        apply: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        largest: int = 200,
        fatal: tuple[type[Exception], ...] = (),
        pause: float = 1.0,
    ) -> None:
        self._apply = apply
        self._largest = largest
        self._fatal, self._pause = fatal, pause
        self._failed: tuple[float, Exception] | None = None
        self._waiting: list[tuple[Item, Future[Result]]] = []
        self._news = threading.Condition()
        self._is_led = False

    def submit(self, item: Item) -> Result:
        """Apply an item, possibly together with others; raises what applying it raised."""
        self._refuse_during_pause()
        outcome: Future[Result] = Future()
        with self._news:
            self._waiting.append((item, outcome))
            self._news.wait_for(lambda: outcome.done() or not self._is_led)
            if outcome.done():
                return outcome.result()
            self._is_led = True
        try:
            while not outcome.done():
                self._lead()
        finally:
            with self._news:
                self._is_led = False
                self._news.notify_all()  # who was served goes on at once; one of the others leads
        return outcome.result()

    def _refuse_during_pause(self) -> None:
        """Raise the error of a moment ago instead of waiting for the same one again."""
        if self._failed is not None and time.monotonic() < self._failed[0]:
            raise self._failed[1].with_traceback(None)

    def _lead(self) -> None:
        """Apply what waits now, as one group."""
        with self._news:
            group, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
        try:
            if len(group) == 1 or not self._settle(group):
                # One bad item must not fail its neighbours: they are taken one by one.
                for item, outcome in group:
                    self._settle_alone(item, outcome)
        except self._fatal as error:
            self._fail_all(group, error)

    def _fail_all(self, group: Sequence[tuple[Item, "Future[Result]"]], error: Exception) -> None:
        """Tell everybody who waits: trying each in turn would only make the last ones wait for all the others."""
        self._failed = (time.monotonic() + self._pause, error)
        with self._news:
            waiting, self._waiting = self._waiting, []
        for _, outcome in (*group, *waiting):
            if not outcome.done():
                outcome.set_exception(error)

    def _settle(self, group: Sequence[tuple[Item, "Future[Result]"]]) -> bool:
        """Apply a group at once; whether it succeeded."""
        try:
            results = self._apply([item for item, _ in group])
        except self._fatal:
            raise
        except Exception:  # whose fault it is, and what it is, shows when each is applied alone
            return False
        for (_, outcome), result in zip(group, results, strict=True):
            outcome.set_result(result)
        return True

    def _settle_alone(self, item: Item, outcome: "Future[Result]") -> None:
        """Apply one item."""
        try:
            (result,) = self._apply([item])
        except self._fatal:
            raise
        except Exception as error:  # the caller's to judge
            outcome.set_exception(error)
        else:
            outcome.set_result(result)
