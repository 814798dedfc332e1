"""The recorder: fair coins, one line per answer, a log that is read without any option."""

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import fdr_core
from examples import record_openai_judge
from fdr_core import Comparisons, InputError, detect
from fdr_core.commands.analyze import analyze
from fdr_core.commands.doctor import doctor
from fdr_core.commands.export_preferences import export_preferences
from fdr_core.commands.gate import gate
from fdr_core.judges.both_orders import both_orders
from fdr_core.judges.record import Recorder, record

PAIR = {"model-1": "a long text", "model-2": "short"}


def always_first(_first: str, _second: str) -> str:
    """A judge that leans."""
    return "A"


def longer(first: str, second: str) -> str:
    """A judge that judges."""
    return "first" if len(first) > len(second) else "second"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_recorder_line_holds_everything_and_the_log_is_read_without_options(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    recorder = Recorder(log, judge="gpt", seed=7, clock=lambda: 1700000000.0)
    assert recorder.compare(PAIR, longer, stratum="p1") == "model-1"
    (line,) = lines(log)
    told = {"judge", "shown_first", "shown_second", "answer", "coin", "seed", "time", "question", "stratum"}
    assert set(line) == told
    assert (line["judge"], line["seed"], line["time"], line["stratum"]) == ("gpt", 7, 1700000000.0, "p1")
    found = Comparisons.from_file(log)
    assert (found.coin_source, found.annotators.tolist(), len(found)) == ("coin", ["gpt"], 1)
    winner = found.items[found.left[0]] if found.outcome[0] > 0 else found.items[found.right[0]]
    assert winner == "model-1"


def test_recorder_coins_are_fair_and_those_of_the_seed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        recorder = Recorder(tmp_path / name, judge="gpt", seed=3)
        for _ in range(400):
            recorder.compare(PAIR, always_first)
    orders = [[line["shown_first"] for line in lines(tmp_path / name)] for name in ("one", "two")]
    assert orders[0] == orders[1]
    assert 160 < orders[0].count("model-1") < 240


def test_recorder_goes_on_with_the_coins_of_a_log_that_exists(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    for _ in range(5):
        Recorder(log, judge="gpt", seed=3).compare(PAIR, longer)
    assert len({line["coin"] for line in lines(log)}) == 5


def test_recorder_both_orders_share_a_coin_and_show_a_lean(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    recorder = Recorder(log, judge="gpt", seed=1)
    for _ in range(10):
        assert recorder.compare(PAIR, always_first, both_orders=True) is None
        assert recorder.compare(PAIR, longer, both_orders=True) == "model-1"
    (found,) = both_orders(Comparisons.from_file(log))
    assert (found.pairs, found.first, found.second) == (20, 10, 0)


@pytest.mark.parametrize(
    ("said", "recorded_as", "outcome"),
    [("[[B]]", "second", -1.0), ("tie", "tie", 0.0), (0.5, 0.5, 0.5), (-1, -1.0, -1.0), (" A. ", "first", 1.0)],
)
def test_recorder_answers_in_other_words_are_understood(
    tmp_path: Path, said: Any, recorded_as: Any, outcome: float
) -> None:
    log = tmp_path / "log.jsonl"
    Recorder(log, judge="gpt", seed=1).compare(PAIR, lambda _one, _two: said)
    assert lines(log)[0]["answer"] == recorded_as
    assert Comparisons.from_file(log).outcome.tolist() == [outcome]


def test_recorder_answer_that_names_no_side_is_kept_and_left_out_when_read(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    recorder = Recorder(log, judge="gpt", seed=1)
    assert recorder.compare(PAIR, lambda _one, _two: "I cannot say") is None
    recorder.compare(PAIR, longer)
    assert lines(log)[0]["answer"] == "I cannot say"
    assert Comparisons.from_file(log).excluded == {"unreadable": 1}


def saying(said: str | float, _one: str, _two: str) -> str | float:
    """A judge who says the same whatever it is shown."""
    return said


def test_recorder_grades_and_words_may_stand_in_one_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    recorder = Recorder(log, judge="gpt", seed=1)
    for said in (0.25, "first", -1):
        recorder.compare(PAIR, partial(saying, said))
    assert sorted(np.abs(Comparisons.from_file(log).outcome)) == [0.25, 1.0, 1.0]


def test_recorder_refuses_grades_out_of_range_and_pairs_of_three(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "log.jsonl", judge="gpt")
    with pytest.raises(ValueError, match="answered 7"):
        recorder.compare(PAIR, lambda _one, _two: 7)
    with pytest.raises(ValueError, match="3 items"):
        recorder.compare({"a": "", "b": "", "c": ""}, longer)


def pairs_of(n: int) -> list[dict[str, str]]:
    return [{f"long-{k}": "a long text", f"short-{k}": "short"} for k in range(n)]


def test_record_asks_in_both_orders_side_by_side_and_gives_the_winners(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert record(pairs_of(40), longer, log, judge="gpt", seed=2) == [f"long-{k}" for k in range(40)]
    assert len({line["coin"] for line in lines(log)}) == 40
    (found,) = both_orders(Comparisons.from_file(log))
    assert (found.pairs, found.consistent.count) == (40, 40)


def test_record_goes_on_where_it_broke_off_and_asks_nothing_twice(tmp_path: Path) -> None:
    log, asked = tmp_path / "log.jsonl", []

    def fails_at_times(first: str, second: str) -> str:
        asked.append(first)
        if len(asked) % 7 == 0:
            raise TimeoutError("no answer")
        return longer(first, second)

    for _ in range(40):
        try:
            winners = record([*pairs_of(12), pairs_of(1)[0]], fails_at_times, log, judge="gpt", workers=3)
        except TimeoutError:
            with log.open("a", encoding="utf-8") as file:
                file.write('{"judge": "gpt", "shown_fir')  # killed in the middle of a line
        else:
            break
    assert winners == [*(f"long-{k}" for k in range(12)), "long-0"]
    assert len(lines(log)) == 24 == len({(line["coin"], line["shown_first"]) for line in lines(log)})
    n_asked = len(asked)
    record(pairs_of(12), fails_at_times, log, judge="gpt")
    assert len(asked) == n_asked
    assert evenhand_reads(log) == ("both orders", 24)


def evenhand_reads(log: Path) -> tuple[str, int]:
    """How the audit has it tested, and the number of answers."""
    comparisons = Comparisons.from_file(log)
    return detect(comparisons, lbi=None).audit.how, len(comparisons)


def test_record_asks_anew_where_contents_or_the_prompt_changed(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    for content, stratum in (("short", "p"), ("shorter", "p"), ("short", "q"), ("short", "p")):
        record([{"x": "a long text", "y": content}], longer, log, judge="gpt", strata=[stratum])
    assert len(lines(log)) == 6


def test_two_recordings_under_one_name_are_refused_with_the_row(tmp_path: Path) -> None:
    """Two judges, one name, one seed: their coins are the same."""
    log = tmp_path / "log.jsonl"
    for name, ask in (("one", longer), ("two", always_first)):
        record(pairs_of(5), ask, tmp_path / name, judge="gpt", seed=1, workers=1)
    log.write_text("".join((tmp_path / name).read_text() for name in ("one", "two")))
    with pytest.raises(InputError, match=r"row 11: gpt was asked twice .*two recordings under one name"):
        Comparisons.from_file(log)


def test_recorder_module_needs_the_standard_library_only() -> None:
    code = (
        "import sys, fdr_core.judges.record; "
        "print([name for name in ('numpy', 'scipy', 'pandas', 'click') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class FakeClient:
    """Stands for an OpenAI-style client: notes what it was asked and always names the first answer."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, **request: Any) -> SimpleNamespace:
        self.asked.append(request)
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="A"))])


def test_example_for_an_openai_style_client_records_what_the_client_answers(tmp_path: Path) -> None:
    client, log = FakeClient(), tmp_path / "log.jsonl"
    record_openai_judge.record(client, "gpt-x", [PAIR] * 40, log)
    assert [line["answer"] for line in lines(log)] == ["first"] * 40
    assert {line["judge"] for line in lines(log)} == {"gpt-x"} == {request["model"] for request in client.asked}
    for line, request in zip(lines(log), client.asked, strict=True):
        shown = request["messages"][0]["content"]
        assert shown.index(PAIR[line["shown_first"]]) < shown.index(PAIR[line["shown_second"]])
    assert {line["shown_first"] for line in lines(log)} == set(PAIR)


def test_record_is_a_name_of_the_library() -> None:
    assert fdr_core.record is record


def test_coin_with_one_value_is_refused_by_every_command(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [f"j{k % 3},i{k % 4},i{4 + k % 3},{'left' if k % 2 else 'right'},heads" for k in range(60)]
    path.write_text("\n".join(["annotator,left,right,choice,coin", *rows]))
    for command in (doctor, analyze, gate, export_preferences):
        answer = CliRunner().invoke(command, [str(path)])
        assert answer.exit_code == 2
        told = " ".join(answer.output.split())
        assert re.search(r"log\.csv: the coin has one value in all 60 answers about 7 items.*--map coin=", told)
    assert list(tmp_path.iterdir()) == [path], "nothing half-written"
