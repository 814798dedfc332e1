"""Logs of evaluation tools (Inspect, promptfoo) in which a judge compared two outputs and the order is recorded."""

from collections.abc import Iterator, Mapping
from typing import Any

from fdr_core.errors import InputError
from fdr_core.inputs.columns import RawAnswers
from fdr_core.inputs.formats import Format
from fdr_core.inputs.item_keys import item_key
from fdr_core.inputs.rows import gathered, outcome_of
from fdr_core.inputs.source import Record, Source

#: Names under which the two outputs may be recorded in the order they were shown, first choice first.
ORDERS = (("shown_first", "shown_second"), ("first", "second"), ("left", "right"), ("model_a", "model_b"))
_NO_ORDER = (
    "the log does not record which of the two outputs the judge saw first (expected {where} with {names}), so "
    "nothing can be said about a lean; record the order (fdr_core.judges.record does) and run the judge again"
)


def _document(source: Source) -> Record:
    """The one object that such a log is."""
    found = source.document if source.kind == "json" else None
    return found if isinstance(found, Mapping) else {}


def _order(*places: Any) -> tuple[Any, Any] | None:
    """The two outputs in the order shown, from the first place that records it."""
    for place in places:
        for first, second in ORDERS:
            if isinstance(place, Mapping) and place.get(first) is not None and place.get(second) is not None:
                return place[first], place[second]
    return None


def _gather(source: Source, answers: Iterator[dict[str, Any]], place: str) -> RawAnswers:
    every = list(answers)
    told = [(answer, answer["order"]) for answer in every if answer["order"] is not None]
    if every and not told:
        names = " or ".join(f"{first}/{second}" for first, second in ORDERS)
        raise InputError(source.where + _NO_ORDER.format(where=place, names=names))
    found = ({**answer, "left": item_key(order[0]), "right": item_key(order[1])} for answer, order in told)
    return gathered(found, where=source.where, excluded={"order not recorded": len(every) - len(told)})


def _inspect_answers(log: Record) -> Iterator[dict[str, Any]]:
    """Every score of every sample; the judge is named by the score's metadata, else by the scorer."""
    for sample in log.get("samples") or []:
        scores = sample.get("scores") or {}
        for scorer, score in scores.items():
            details = score.get("metadata") or {}
            judge = details.get("judge") or details.get("grader") or details.get("model") or scorer
            yield {
                "annotator": str(judge),
                "order": _order(details, sample.get("metadata")),
                "outcome": outcome_of(score.get("answer") if score.get("answer") is not None else score.get("value")),
                "task": f"{sample.get('id')}/{sample.get('epoch', 1)}",
            }


def _promptfoo_answers(log: Record) -> Iterator[dict[str, Any]]:
    """Every result: the provider is the judge, its output the answer, and the variables tell the order."""
    for number, result in enumerate(_promptfoo_results(log)):
        provider = result.get("provider")
        judge = provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider
        response = result.get("response") or {}
        yield {
            "annotator": str(judge or ""),
            "order": _order(result.get("metadata"), result.get("vars")),
            "outcome": outcome_of(response.get("output") if isinstance(response, Mapping) else response),
            "task": str(result.get("testIdx", number)),
        }


def _promptfoo_results(log: Record) -> list[Record]:
    results = log.get("results")
    inner = results.get("results") if isinstance(results, Mapping) else results
    return [entry for entry in inner if isinstance(entry, Mapping)] if isinstance(inner, list) else []


def _is_inspect(source: Source) -> bool:
    log = _document(source)
    return isinstance(log.get("samples"), list) and isinstance(log.get("eval"), Mapping)


INSPECT = Format(
    name="inspect-ai",
    title="Inspect evaluation log (JSON)",
    recognises=_is_inspect,
    read=lambda source: _gather(source, _inspect_answers(_document(source)), "metadata of each sample or score"),
    uses={"samples": "annotator (judge or scorer), order shown (metadata) and answer (score) of each"},
    supports=("Judges are named; the order shown is read from the metadata.",),
    lacks=("A log in the binary .eval form is not read; write it with `inspect log convert --to json`.",),
)
PROMPTFOO = Format(
    name="promptfoo",
    title="promptfoo results (JSON)",
    recognises=lambda source: bool(_promptfoo_results(_document(source))),
    read=lambda source: _gather(source, _promptfoo_answers(_document(source)), "vars of each test"),
    uses={"results": "annotator (provider), order shown (vars) and answer (output) of each"},
    supports=("Providers are the judges; the order shown is read from the variables of the test.",),
    lacks=("The assertion select-best does not record in which order outputs were shown: such results are refused.",),
)
