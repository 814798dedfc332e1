"""Group commit: callers that arrive while a write is under way share the next one."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Caller(Generic[Item, Result]):
    """Somebody who waits for an item's result; the bell rings once, with the result or with the lead."""

    __slots__ = ("bell", "error", "is_served", "item", "result")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.is_served = False
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.bell = threading.Lock()
        self.bell.acquire()

    def serve(self, result: Result | None = None, error: BaseException | None = None) -> None:
        """Hand over what became of the item; only the first call counts."""
        if not self.is_served:
            self.result, self.error, self.is_served = result, error, True
            self.bell.release()


class GroupCommit(Generic[Item, Result]):
    """Hands items to `apply` in groups; every caller waits for its own item's durable result.

    A commit costs the same for one event as for ten, so under load the groups grow instead of the queue. One caller at
    a time leads: it applies what waits, its own item among it, and hands the lead to the first who came meanwhile. An
    error of a kind that is `fatal` is nobody's own: it fails the group, all who wait, and for `pause` seconds all who
    come.
    """

    def __init__(
        self,
        apply: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        largest: int = 200,
        fatal: tuple[type[Exception], ...] = (),
        pause: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._apply = apply
        self._largest = largest
        self._fatal, self._pause, self._clock = fatal, pause, clock
        self._failed: tuple[float, Exception] | None = None
        self._waiting: list[_Caller[Item, Result]] = []
        self._lock = threading.Lock()
        self._is_led = False

    def submit(self, item: Item) -> Result:
        """Apply an item, possibly together with others; raises what applying it raised."""
        self._refuse_during_pause()
        caller: _Caller[Item, Result] = _Caller(item)
        with self._lock:
            self._waiting.append(caller)
            leads, self._is_led = not self._is_led, True
        if not leads:
            caller.bell.acquire()
        if not caller.is_served:
            self._lead()
        if caller.error is not None:
            raise caller.error
        return caller.result  # type: ignore[return-value]  # served without an error: there is a result

    def _refuse_during_pause(self) -> None:
        """Raise the error of a moment ago instead of waiting for the same one again."""
        if self._failed is not None and self._clock() < self._failed[0]:
            raise self._failed[1].with_traceback(None)

    def _lead(self) -> None:
        """Apply what waits now, as one group, and hand the lead on."""
        with self._lock:
            group, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
        try:
            if len(group) == 1 or not self._settle(group):
                # One bad item must not fail its neighbours: they are taken one by one.
                for caller in group:
                    self._settle_alone(caller)
        except self._fatal as error:
            self._fail_all(group, error)
        except BaseException as error:  # the process is being ended: nobody waits for ever
            _fail(group, error)
            raise
        finally:
            self._hand_on()

    def _hand_on(self) -> None:
        """Let the first who waits lead; who was served goes on by itself."""
        with self._lock:
            self._is_led = bool(self._waiting)
            if self._is_led:
                self._waiting[0].bell.release()

    def _fail_all(self, group: Sequence[_Caller[Item, Result]], error: Exception) -> None:
        """Tell everybody who waits: trying each in turn would only make the last ones wait for all the others."""
        self._failed = (self._clock() + self._pause, error)
        with self._lock:
            waiting, self._waiting = self._waiting, []
        _fail((*group, *waiting), error)

    def _settle(self, group: Sequence[_Caller[Item, Result]]) -> bool:
        """Apply a group at once; whether it succeeded."""
        try:
            results = self._apply([caller.item for caller in group])
        except self._fatal:
            raise
        except Exception:  # whose fault it is, and what it is, shows when each is applied alone
            return False
        for caller, result in zip(group, results, strict=True):
            caller.serve(result)
        return True

    def _settle_alone(self, caller: _Caller[Item, Result]) -> None:
        """Apply one item."""
        try:
            (result,) = self._apply([caller.item])
        except self._fatal:
            raise
        except Exception as error:  # the caller's to judge
            caller.serve(error=error)
        else:
            caller.serve(result)


def _fail(callers: Sequence[_Caller[Item, Result]], error: BaseException) -> None:
    """Tell these the same error."""
    for caller in callers:
        caller.serve(error=error)
