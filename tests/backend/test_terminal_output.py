"""The command line for people: names whole, colours only where wanted, a way on, nothing made by accident."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from evenhand.cli import LazyGroup, main
from evenhand.commands.operate import status

from fdr_core.commands._summary import summary, table
from fdr_core.commands.analyze import analyze
from fdr_core.commands.simulate import simulate

LONG = "annotator-with-a-name-that-nobody-would-shorten@example.org"


def report(name: str = LONG) -> dict[str, Any]:
    row = {
        **{"annotator": name, "comparisons": 80, "left": 70, "right": 10, "ties": 0, "flagged": True},
        **{"bias": 0.6, "bias_low": 0.4, "bias_high": 0.8, "p_value": 0.0001, "q_value": 0.003, "lbi_share": 1.0},
        **{"finding": "leans left", "difference": None},
    }
    return {
        "data": {"answers": 80, "annotators": 1, "items": 4},
        "annotators": [row],
        "method": {"decided_by": "exact"},
        "parameters": {"q": 0.1},
        "audit": {"construction": "flip", "reasons": ["Sides look random."], "remedies": []},
        "guarantee": {"kind": "FDR, proven", "sentence": "At most about 1 in 10 is wrong."},
    }


def printed(width: int, shown: dict[str, Any] | None = None) -> str:
    return click.unstyle("\n".join(summary(shown or report(), width)))


@pytest.mark.parametrize("width", [60, 80, 150, 100_000])
def test_summary_keeps_names_whole_and_drops_other_columns_first(width: int) -> None:
    text = printed(width)
    assert "…" not in text
    assert "example.org" in text  # folded onto a second line where nothing else is left to drop
    assert "leans left" in text
    assert ("left/right/tie" in text) == (width >= 150)
    assert (LONG in text) == (width >= 80)


def test_summary_says_the_promise_in_one_plain_sentence() -> None:
    text = printed(120)
    assert "At most about 1 in 10 is wrong." in text
    assert "FDR, proven" not in text
    assert "left 0.60" in text
    assert "strong" in text


def test_summary_explains_once_the_flags_whose_interval_holds_0() -> None:
    shown = report()
    (row,) = shown["annotators"]
    shown["annotators"] = [row, *({**row, "annotator": name, "bias_low": -0.1} for name in ("second", "third"))]
    text = printed(100_000, shown)
    assert text.count("the interval holds 0") == 1
    assert "second, third: Flagged although the interval holds 0" in text
    assert "holds 0" not in printed(100_000)


def test_summary_where_lbi_decides_takes_the_evidence_from_it() -> None:
    shown = report()
    shown["method"]["decided_by"] = "lbi"
    shown["annotators"][0]["q_value"] = 0.6
    text = printed(100_000, shown)
    assert "strong" in text
    assert "weak" not in text


def test_summary_colours_findings() -> None:
    assert "\x1b[33mleans left" in "\n".join(summary(report(), 120))


def test_colours_are_left_out_where_no_color_is_set() -> None:
    class Coloured(LazyGroup):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return click.Command(cmd_name, callback=lambda: click.echo(click.style("x", fg="red")))

    def shown(**environment: str) -> str:
        return CliRunner(env=environment).invoke(Coloured(), ["paint"], color=True).output

    assert shown() == "\x1b[31mx\x1b[0m\n"
    assert shown(NO_COLOR="1") == "x\n"


def test_table_of_wide_letters_keeps_its_columns_in_line() -> None:
    lines = table(["name", "n"], [{"name": "田中", "n": "1"}, {"name": "an\u0303a", "n": "22"}], words=["name"])
    assert lines == ["name   n", "田中   1", "an\u0303a   22"]


def test_analyze_ends_with_the_file_to_open(tmp_path: Path) -> None:
    crowd, out = tmp_path / "crowd.csv", tmp_path / "out"
    runner = CliRunner()
    assert runner.invoke(simulate, [str(crowd), "--annotators", "6", "--answers", "20"]).exit_code == 0
    done = runner.invoke(analyze, [str(crowd), "--lbi", "draws=3", "--out", str(out), "--title", "Spring round"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == f"Open {out / 'report.html'}"
    assert "<h1><bdi>Spring round</bdi></h1>" in (out / "report.html").read_text(encoding="utf-8")


def test_simulate_into_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(simulate, [str(tmp_path / "mistyped" / "crowd.csv")])
    assert done.exit_code == 2
    assert "does not exist" in done.output
    assert not (tmp_path / "mistyped").exists()


def test_status_without_data_says_so_and_creates_nothing(tmp_path: Path) -> None:
    done = CliRunner(env={"MODEL_DIR": str(tmp_path / "none"), "DATABASE_URL": ""}).invoke(status, [])
    assert done.exit_code == 1
    assert "there is no data here" in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "1"],
        ["undo", "1"],
        ["sync"],
        ["report", "1", "--out", "r"],
        ["users", "list"],
        ["users", "remove", "ana"],
        ["annotator", "export", "7"],
        ["annotator", "erase", "7", "--yes"],
        ["disconnect", "1", "--yes"],
    ],
    ids=" ".join,
)
def test_command_that_needs_data_creates_none(tmp_path: Path, arguments: list[str]) -> None:
    done = CliRunner(env={"MODEL_DIR": str(tmp_path / "none"), "DATABASE_URL": ""}).invoke(main, arguments)
    assert done.exit_code == 1
    assert "there is no data here" in done.output
    assert list(tmp_path.iterdir()) == []


def test_account_without_a_terminal_is_told_how_to_give_the_password(tmp_path: Path) -> None:
    done = CliRunner(env={"MODEL_DIR": str(tmp_path), "DATABASE_URL": ""}).invoke(main, ["users", "add", "ana"])
    assert done.exit_code == 2
    assert "--password-stdin" in done.output


def test_tasks_prepared_twice_keep_the_coins_of_the_first_time(tmp_path: Path) -> None:
    pairs, out = tmp_path / "pairs.csv", tmp_path / "prepared"
    pairs.write_text("left,right\na,b\nc,d\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["prepare", str(pairs), "--out", str(out)]).exit_code == 0
    coins = (out / "coins.json").read_bytes()
    done = CliRunner().invoke(main, ["prepare", str(pairs), "--out", str(out)])
    assert done.exit_code == 2
    assert "name another folder with --out" in done.output
    assert (out / "coins.json").read_bytes() == coins


def test_interrupted_command_exits_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = tmp_path / "crowd.csv"
    crowd.write_text("annotator,left,right,choice\na,x,y,left\n", encoding="utf-8")
    # Ctrl-C in the middle of the work; where tests run side by side the signal is ignored otherwise.
    monkeypatch.setattr("fdr_core.detect", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = CliRunner().invoke(main, ["analyze", str(crowd), "--out", str(tmp_path / "o")])
    finally:
        signal.signal(signal.SIGINT, former)
    assert done.exit_code == 130
    assert "Stopped." in done.stderr
    assert "Traceback" not in done.output
    assert not (tmp_path / "o").exists()
