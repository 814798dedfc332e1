"""Answers that a broken reading makes are stopped, with what was seen and the option that says that they are meant."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from fdr_core import Comparisons, InputError
from fdr_core.commands.analyze import analyze
from fdr_core.commands.doctor import doctor
from fdr_core.commands.gate import gate


def crowd(path: Path, choices: list[str], n_annotators: int = 6) -> Path:
    rows = [f"a{j},i{k},i{k + 1},{choices[(j + k) % len(choices)]}" for j in range(n_annotators) for k in range(8)]
    path.write_text("annotator,left,right,choice\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("choices", "seen"),
    [
        (["right"], r"none of 6 annotators ever chose the left side: 48 answers for the right, 0 ties"),
        (["left", "tie"], "none of 6 annotators ever chose the right side: 24 answers for the left, 24 ties"),
    ],
)
def test_side_that_nobody_chose_stops_every_command(tmp_path: Path, choices: list[str], seen: str) -> None:
    path = crowd(tmp_path / "broken.csv", choices)
    with pytest.raises(InputError, match=rf"broken\.csv: {seen}; if that is meant, say --one-sided"):
        Comparisons.from_file(path)
    for command in (analyze, gate):
        ran = CliRunner().invoke(command, [str(path)])
        assert ran.exit_code == 2
        assert "--one-sided" in ran.output
    assert "--one-sided" in CliRunner().invoke(doctor, [str(path)]).output
    meant = CliRunner().invoke(analyze, [str(path), "--one-sided", "--json", "--lbi", "off"])
    assert meant.exit_code == 0, meant.output


def test_annotators_with_one_answer_each_are_stopped(tmp_path: Path) -> None:
    path = tmp_path / "each.csv"
    rows = [f"a{j},i{k},i{k + 1},{'left' if j % 2 else 'right'}" for j in range(6) for k in range(6)]
    path.write_text("annotator,left,right,choice\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match="each of 6 annotators has only one answer throughout"):
        Comparisons.from_file(path)


def test_few_annotators_and_mixed_answers_are_read(tmp_path: Path) -> None:
    assert len(Comparisons.from_file(crowd(tmp_path / "one.csv", ["left"], n_annotators=1))) == 8
    assert len(Comparisons.from_file(crowd(tmp_path / "four.csv", ["left"], n_annotators=4))) == 32
    assert len(Comparisons.from_file(crowd(tmp_path / "mixed.csv", ["left", "right"]))) == 48


def test_choices_that_name_items_are_told_and_not_sides(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("annotator,left,right,choice\na,x,y,x\na,y,z,z\n")
    with pytest.raises(InputError, match=r"the choices name items \('x'\), not sides.*--map label=choice"):
        Comparisons.from_file(path)
    assert Comparisons.from_file(path, mapping={"label": "choice"}).outcome.tolist() == [1, -1]
