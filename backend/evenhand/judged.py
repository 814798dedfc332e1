"""What counts as judged: the one rule, for rows in memory, for SQL and for Ibis."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from evenhand.domain import Status

Condition = TypeVar("Condition")

#: Kinds of annotation that are kept and counted; an answer always counts, a prediction if the project says so.
LEFT_OUT: tuple[Status, ...] = ("skip", "empty", "draft", "prediction", "unreadable")


@dataclass(frozen=True)
class Policy:
    """Which readable answers a project counts."""

    ground_truth: bool = True
    predictions: bool = False
    whose: str = "people"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Policy":
        """The part of a project's stored settings that decides which answers count."""
        return cls(
            ground_truth=config["count_ground_truth"],
            predictions=config["count_predictions"],
            whose=config.get("judges", "people"),
        )

    @property
    def statuses(self) -> tuple[Status, ...]:
        """Kinds of annotation that count."""
        people: tuple[Status, ...] = ("answer", "prediction") if self.predictions else ("answer",)
        if self.whose == "people":
            return people
        return ("judge",) if self.whose == "predictions" else (*people, "judge")

    def conditions(
        self,
        column: Callable[[str], Any],
        *,
        one_of: Callable[[Any, tuple[str, ...]], Condition],
        known: Callable[[Any], Condition],
        false: Callable[[Any], Condition],
        answer: str = "outcome",
    ) -> list[Condition]:
        """What has to hold of a row, in the words of whoever asks.

        `column` gives the value or expression of a name; `one_of`, `known` (not null) and `false` make conditions;
        `answer` is the column that must hold something.
        """
        found = [false(column("deleted")), one_of(column("status"), self.statuses), known(column(answer))]
        return found if self.ground_truth else [*found, false(column("ground_truth"))]

    def judges(self, row: Mapping[str, Any]) -> bool:
        """Whether a row in memory counts."""
        return all(
            self.conditions(
                row.__getitem__,
                one_of=lambda value, allowed: value in allowed,
                known=lambda value: value is not None,
                false=lambda value: not value,
            )
        )

    def sql(self, table: Any, *, answer: str = "outcome") -> list[Any]:
        """The conditions on a table of SQLAlchemy."""
        return self.conditions(
            lambda name: table.c[name],
            one_of=lambda column, allowed: column.in_(allowed),
            known=lambda column: column.is_not(None),
            false=lambda column: ~column,
            answer=answer,
        )

    def left_out(self, counts: Mapping[str, int]) -> dict[str, int]:
        """How many annotations of each kind were kept but not judged."""
        return {kind: counts[kind] for kind in LEFT_OUT if kind not in self.statuses and counts.get(kind)}


def coin_label(coin: str | None, task_id: int | None) -> str:
    """A recorded coin, else the task: in Label Studio one coin serves all annotators of a task."""
    return coin if coin is not None else f"task:{task_id}"
