"""One file, one audit: doctor, analyze, gate, export-preferences, and the sums that the service and engines keep."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from fdr_core import Comparisons, detect
from fdr_core.commands.analyze import analyze
from fdr_core.commands.doctor import doctor
from fdr_core.commands.export_preferences import export_preferences
from fdr_core.commands.gate import gate
from fdr_core.engines import sum_comparisons
from fdr_core.inputs.registry import detect_format
from fdr_core.report.words import left_out_words
from tests.core.inputs.samples import READ, REFUSED, SAMPLES

#: Real sets, with the columns that their sources name; the first rows of the large ones.
SETS: dict[str, tuple[str, ...]] = {
    "humanage": (),
    "iqa_ref1": (),
    "pandalm": (),
    "prd_both_orders": (),
    "llmfao": (),
    "ukpconvarg1": (),
    "worldcollege": (),
    "alpaca_eval_judges": (),
    "alpaca_eval_judges as recorded": ("--map", "coin=instruction"),
}
MOST_ROWS = 3000


def run(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


def agree(path: Path, folder: Path, *options: str) -> dict[str, Any]:
    """Hold all commands to what `analyze` says of a file."""
    report: dict[str, Any] = json.loads(run(analyze, path, "--json", "--lbi", "off", *options).stdout)
    said = [*report["audit"]["reasons"][:1], *report["audit"]["remedies"]]
    out = {name: count for name, count in report["data"]["excluded"].items() if count}
    texts = folder / "texts.csv"
    items = Comparisons.from_file(path, mapping={"coin": "instruction"} if options else None).items
    pd.DataFrame({"item": [str(item) for item in items], "text": "words"}).to_csv(texts, index=False)
    refused = report["audit"]["how"] == "none" and report["audit"]["figures"]["assessable"] > 0
    done = {
        "doctor": run(doctor, path, *options),
        "gate": run(gate, path, *options),
        "export": run(
            export_preferences, path, "--texts", texts, "--out", folder / "o", "--again", folder / "a", *options
        ),
    }
    for name, answer in done.items():
        told = " ".join(answer.output.split())
        assert [sentence for sentence in said if " ".join(sentence.split()) not in told.replace("\\", "")] == [], name
        counts = [f"{count:,} {left_out_words(reason)}" for reason, count in out.items()]
        assert [words for words in counts if words not in answer.output and answer.exit_code != 2] == [], name
    assert done["doctor"].exit_code == int(refused)
    shown = [f"answers: {report['data']['answers']:,};", *(f"  {use}" for use in detect_format(path).columns)]
    assert [words for words in ("Columns:", *shown) if words not in done["doctor"].output] == []
    assert (done["gate"].exit_code == 2) == (refused or report["audit"]["how"] == "sides fixed")
    leans = {str(row["annotator"]): f"{row['bias']:+.3f}" for row in report["annotators"]}
    rows = re.findall(r"^\| (.+?) \| \S+ \S+ \| ([-+]\S+) ", done["gate"].stdout, re.MULTILINE)
    # Sums are added in another order than answers: -0.000 and +0.000 are the same lean.
    even = {name.replace("\\", ""): lean.replace("-0.000", "+0.000") for name, lean in rows}
    assert even == ({name: lean.replace("-0.000", "+0.000") for name, lean in leans.items()} if rows else {})
    return report


@pytest.mark.parametrize("name", READ)
def test_sample_of_every_format_is_judged_alike(tmp_path: Path, name: str) -> None:
    agree(SAMPLES / name, tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_format_that_cannot_be_judged_is_refused_by_every_command(tmp_path: Path, name: str) -> None:
    for command in (doctor, analyze, gate, export_preferences):
        answer = run(command, SAMPLES / name)
        assert (answer.exit_code in (1, 2), REFUSED[name][1] in " ".join(answer.output.split())) == (True, True)


@pytest.mark.data
@pytest.mark.parametrize("name", SETS)
def test_real_set_is_judged_alike(dataset: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    path = tmp_path / "set.csv"
    pd.read_csv(dataset(name.split()[0]) / "comparisons.csv", dtype=str).head(MOST_ROWS).to_csv(path, index=False)
    report = agree(path, tmp_path, *SETS[name])
    if not SETS[name]:
        c = Comparisons.from_file(path)
        kept = detect(sum_comparisons(c), lbi=None)
        assert kept.audit.how == report["audit"]["how"]
        assert {str(label) for label in kept.flagged} == {
            str(row["annotator"]) for row in report["annotators"] if row["flagged"]
        }


def judges_of_shared_questions(seed: int, *, coin_per: str) -> pd.DataFrame:
    """Six even judges of 40 questions about each of eight models and one baseline, in one order per question (pair)."""
    rng = np.random.default_rng(seed)
    rows = []
    for question in range(40):
        order, strength = rng.random() < 0.5, rng.choice([0.1, 0.9])
        for model in range(8):
            order = rng.random() < 0.5 if coin_per == "pair" else order
            better = rng.random() < strength  # clear to all judges
            for judge in range(6):
                pair = (f"m{model}", "base") if order else ("base", f"m{model}")
                wins = better if rng.random() < 0.9 else not better
                rows.append((f"j{judge}", *pair, "left" if wins == order else "right", f"q{question}"))
    return pd.DataFrame(rows, columns=["annotator", "left", "right", "choice", "question"])


@pytest.mark.parametrize(("coin_per", "n_coins"), [("question", 40), ("pair", 320)])
def test_forgotten_coin_is_found_named_and_never_proves(tmp_path: Path, coin_per: str, n_coins: int) -> None:
    path = tmp_path / "log.csv"
    judges_of_shared_questions(0, coin_per=coin_per).to_csv(path, index=False)
    c = Comparisons.from_file(path)
    assert (c.coin_source, c.coin_column, len(np.unique(c.coin))) == ("guessed", "question", n_coins)
    found = detect(c, lbi=None)
    assert found.method["proven"] == 0
    assert "--map coin=question" in found.audit.remedies[0]
    assert "guessed" in found.guarantee.sentence
    assert c.to_frame().columns.tolist() == ["annotator", "left", "right", "outcome"]


def test_intervals_without_the_coin_are_those_with_it(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    judges_of_shared_questions(1, coin_per="question").to_csv(path, index=False)
    read = [Comparisons.from_file(path, mapping=mapping) for mapping in (None, {"coin": "question"})]
    read.append(Comparisons.from_frame(read[0].to_frame()))
    tables = [detect(comparisons, lbi=None).annotators for comparisons in read]
    width = [(table["bias_high"] - table["bias_low"]).mean() for table in tables]
    assert width[0] == pytest.approx(width[1])
    assert width[0] > 1.5 * width[2]


@pytest.mark.parametrize("column", ["order", "first_shown", "number", "winner"])
def test_column_that_is_no_coin_is_not_taken_for_one(tmp_path: Path, column: str) -> None:
    rng = np.random.default_rng(0)
    one, two = rng.integers(8, size=(2, 1200))
    one, two = one[one != two], two[one != two]
    left_wins = rng.random(len(one)) < 0.5
    frame = pd.DataFrame({"annotator": np.arange(len(one)) % 6, "left": one, "right": two})
    frame["choice"] = np.where(left_wins, "left", "right")
    told = {"order": np.where(one < two, "AB", "BA"), "first_shown": one, "number": rng.integers(300, size=len(one))}
    frame[column] = told.get(column, np.where(left_wins, one, two))
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert Comparisons.from_file(tmp_path / "log.csv").coin_source == "own"
