"""Record a judge fairly: ask in both orders, the first drawn by a coin, and write one line per answer.

    winners = record(pairs, ask, "judge.jsonl", judge="gpt-x")

`pairs` are mappings from two names to what the judge is shown; `ask(first, second)` shows two contents in this order
and answers "first", "second" or "tie" (also A, B, C, or a number from 1 for the first to -1 for the second). What the
log holds is not asked again, so a run that broke off goes on where it was. Each line holds judge, shown_first,
shown_second, answer, coin, seed, time and question; `evenhand analyze judge.jsonl` reads it without any option, and
computes every order from its coin again.
"""

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import repeat
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
        JSON lines; answers are appended, and the coins of an existing log are continued. A last line that broke off is
        dropped.
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
        lines = _whole_lines(self.path)
        self._flips = len(lines)
        self._known: dict[tuple[str, str], Mapping[str, Any]] = {
            (line["question"], line["shown_first"]): line
            for line in lines
            if line.get("judge") == judge and "question" in line
        }

    def compare(
        self,
        pair: Mapping[str, Content],
        ask: Ask[Content],
        *,
        both_orders: bool = False,
        stratum: str | None = None,
        again: bool = True,
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
        again : bool
            Ask even if the log holds an answer to the same contents in the same order.

        Returns
        -------
        str or None
            The name of the item that won; None for a tie, for answers that name no side, and for two orders that
            disagree.
        """
        if len(pair) != 2:
            raise ValueError(f"the pair has {len(pair)} items; expected two, by name")
        one, two = pair
        question = _question(pair, stratum, both_orders)
        known = {first: self._known.get((question, first)) for first in ({} if again else pair)}
        coin, is_heads = self._flip(one, both_orders)
        if told := next(filter(None, known.values()), None):  # the other order belongs under the coin that was drawn
            coin, is_heads = told["coin"], (told["shown_first"] == one)
        orders = [(one, two) if is_heads else (two, one)]
        if both_orders:
            orders.append((orders[0][1], orders[0][0]))
        winners = set()
        for first, second in orders:
            line = known.get(first) or self._ask(first, second, pair, ask, coin, stratum, question)
            winners.add(_winner(line))
        return winners.pop() if len(winners) == 1 else None

    def _ask(
        self,
        first: str,
        second: str,
        pair: Mapping[str, Content],
        ask: Ask[Content],
        coin: str,
        stratum: str | None,
        question: str,
    ) -> Mapping[str, Any]:
        answer = _normal(ask(pair[first], pair[second]))
        line: dict[str, Any] = {"judge": self.judge, "shown_first": first, "shown_second": second, "answer": answer}
        line |= {"coin": coin, "seed": self.seed, "time": self._clock(), "question": question}
        line |= {} if stratum is None else {"stratum": stratum}
        self._write(line)
        return line

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
            self._known[line["question"], line["shown_first"]] = line


def record(
    pairs: Iterable[Mapping[str, Content]],
    ask: Ask[Content],
    path: str | Path,
    *,
    judge: str,
    both_orders: bool = True,
    strata: Iterable[str] | None = None,
    workers: int = 8,
    seed: int | None = None,
) -> list[str | None]:
    """
    Ask a judge about every pair, several side by side, and nothing that its log answers already.

    Parameters
    ----------
    pairs, ask, path, judge, both_orders, seed
        As in `Recorder` and `Recorder.compare`; `ask` is called from several threads.
    strata : iterable of str, optional
        What each pair belongs to, such as its prompt.
    workers : int
        Questions that are asked at a time.

    Returns
    -------
    list of str or None
        The winner of every pair, None where the two orders disagree or nobody won.

    Raises
    ------
    Exception
        What `ask` raised first, after the others have been answered and written; call again to go on.
    """
    recorder = Recorder(path, judge=judge, seed=seed)
    asked: dict[str, Future[str | None]] = {}
    order = []
    with ThreadPoolExecutor(workers) as pool:
        for pair, stratum in zip(pairs, repeat(None) if strata is None else strata, strict=False):
            question = _question(pair, stratum, both_orders)
            if question not in asked:
                put = partial(recorder.compare, both_orders=both_orders, stratum=stratum, again=False)
                asked[question] = pool.submit(put, pair, ask)
            order.append(question)
    return [asked[question].result() for question in order]


def _question(pair: Mapping[str, Any], stratum: str | None, both_orders: bool) -> str:
    """Names what is asked by its contents, whatever the order of the two."""
    content = json.dumps([sorted(pair.items()), stratum, both_orders], ensure_ascii=False, default=repr)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _winner(line: Mapping[str, Any]) -> str | None:
    answer, first, second = line["answer"], line["shown_first"], line["shown_second"]
    if isinstance(answer, float):
        return str(first) if answer > 0 else str(second) if answer < 0 else None
    return {"first": str(first), "second": str(second)}.get(answer)


def _normal(answer: Answer) -> Answer:
    """first, second or tie; a grade; or, where it is neither, the words themselves."""
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        if not -1 <= answer <= 1:
            raise ValueError(f"the judge answered {answer}; expected a grade from 1 (first) to -1 (second)")
        return float(answer)
    text = str(answer).strip()
    return _WORDS.get(text.strip("[]().").strip().lower(), text)


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; what broke off at its end is cut away."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        path.write_bytes(whole)
    return [json.loads(line) for line in whole.splitlines() if line.strip()]
