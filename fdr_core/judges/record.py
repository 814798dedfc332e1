"""Record a judge fairly: flip a coin, show the pair in that order, and write one line per answer.

    recorder = Recorder("judge.jsonl", judge="gpt-x")
    winner = recorder.compare({"model-1": text_1, "model-2": text_2}, ask)

`ask(first, second)` shows two contents in this order and answers "first", "second" or "tie" (also A, B, C, or a number
from 1 for the first to -1 for the second). Each line of the log holds judge, shown_first, shown_second, answer, coin,
seed and time; `evenhand analyze judge.jsonl` reads it without any option, and computes every order from its coin again.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from fdr_core.inputs.item_keys import drawn_coin

Content = TypeVar("Content")
Answer = str | float
Ask = Callable[[Content, Content], Answer]

_WORDS = {
    **dict.fromkeys(("first", "a", "left", "1"), "first"),
    **dict.fromkeys(("second", "b", "right", "2"), "second"),
    **dict.fromkeys(("tie", "c", "draw", "equal", "0"), "tie"),
}


class Recorder:
    """
    A log of one judge's comparisons, each in an order that a recorded coin decided.

    Parameters
    ----------
    path : str or Path
        JSON lines; answers are appended, and the coins of an existing log are continued.
    judge : str
        Name of the judge: the model, its prompt and settings, whatever makes it another judge.
    seed : int, optional
        Decides all coins; a fresh one by default. The same seed gives the same orders.
    clock : callable
        Seconds since 1970.
    """

    def __init__(
        self, path: str | Path, *, judge: str, seed: int | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.path, self.judge = Path(path), judge
        self.seed = secrets.randbits(48) if seed is None else seed
        self._clock, self._lock = clock, threading.Lock()
        self._flips = _lines(self.path)

    def compare(
        self, pair: Mapping[str, Content], ask: Ask[Content], *, both_orders: bool = False, stratum: str | None = None
    ) -> str | None:
        """
        Ask about a pair in the order that a coin decides, and record the answer.

        Parameters
        ----------
        pair : mapping
            From the names of two items to what the judge is shown of them.
        ask : callable
            Shows two contents in this order and gives the answer; see the module's documentation.
        both_orders : bool
            Ask a second time with the sides swapped, under the same coin.
        stratum : str, optional
            What the pair belongs to, such as its prompt.

        Returns
        -------
        str or None
            The name of the item that won; None for a tie, for answers that name no side, and for two orders that
            disagree.
        """
        if len(pair) != 2:
            raise ValueError(f"the pair has {len(pair)} items; expected two, by name")
        one, two = pair
        coin, is_heads = self._flip(one, both_orders)
        orders = [(one, two) if is_heads else (two, one)]
        if both_orders:
            orders.append((orders[0][1], orders[0][0]))
        winners = {self._ask(first, second, pair, ask, coin, stratum) for first, second in orders}
        return winners.pop() if len(winners) == 1 else None

    def _ask(
        self, first: str, second: str, pair: Mapping[str, Content], ask: Ask[Content], coin: str, stratum: str | None
    ) -> str | None:
        answer = _normal(ask(pair[first], pair[second]))
        line: dict[str, Any] = {"judge": self.judge, "shown_first": first, "shown_second": second, "answer": answer}
        line |= {"coin": coin, "seed": self.seed, "time": self._clock()}
        self._write(line if stratum is None else line | {"stratum": stratum})
        if isinstance(answer, float):
            return first if answer > 0 else second if answer < 0 else None
        return {"first": first, "second": second}.get(answer)

    def _flip(self, one: str, both_orders: bool) -> tuple[str, bool]:
        """The next coin: its name, and whether ``one`` is shown first; seed, judge and number decide."""
        with self._lock:
            number, self._flips = self._flips, self._flips + 1
        return drawn_coin(self.seed, (self.judge, number), one, both_orders=both_orders)

    def _write(self, line: Mapping[str, Any]) -> None:
        """Append one line in one write, so that several processes may share a log."""
        text = json.dumps(line, ensure_ascii=False) + "\n"
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(text)


def recorded(
    ask: Ask[Content], path: str | Path, *, judge: str, seed: int | None = None, both_orders: bool = False
) -> Callable[[Mapping[str, Content]], str | None]:
    """
    Wrap a judge function so that every call flips a coin and is recorded.

    Parameters
    ----------
    ask : callable
        As in `Recorder.compare`.
    path, judge, seed
        As in `Recorder`.
    both_orders : bool
        Ask every pair in both orders.

    Returns
    -------
    callable
        Takes a mapping from two names to contents and gives the name of the winner, or None.
    """
    recorder = Recorder(path, judge=judge, seed=seed)

    @wraps(ask)
    def compare(pair: Mapping[str, Content]) -> str | None:
        return recorder.compare(pair, ask, both_orders=both_orders)

    return compare


def _normal(answer: Answer) -> Answer:
    """first, second or tie; a grade; or, where it is neither, the words themselves."""
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        if not -1 <= answer <= 1:
            raise ValueError(f"the judge answered {answer}; expected a grade from 1 (first) to -1 (second)")
        return float(answer)
    text = str(answer).strip()
    return _WORDS.get(text.strip("[]().").strip().lower(), text)


def _lines(path: Path) -> int:
    """How many answers a log holds already."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return sum(1 for _ in file)
