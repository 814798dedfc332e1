"""The mutants: every change is made once, what has no meaning is left alone, judged ones are not drawn again."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts import mutants as program
from scripts.mutations import mutants

SOURCE = '''"""A module."""
from typing import Any
def f(a: int | None, b: Any = 1) -> int | None:
    """Tell something."""
    if a is None or b < 2:
        raise ValueError(f"no {a + 1}")
    print(a)
    return not a
'''


def test_mutants_of_a_small_function_are_these() -> None:
    assert sorted((mutant.line, str(mutant)) for mutant in mutants(SOURCE)) == [
        (3, "1  ->  2"),
        (5, "2  ->  3"),
        (5, "a is None  ->  a is not None"),
        (5, "a is None or b < 2  ->  a is None and b < 2"),
        (5, "b < 2  ->  b <= 2"),
        (5, "if a is None or b < 2: …  ->  if not (a is None or b < 2): …"),
        (6, "raise ValueError(f'no {a + 1}')  ->  pass"),
        (7, "print(a)  ->  pass"),
        (8, "not a  ->  a"),
        (8, "return not a  ->  return None"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "@dataclass(frozen=True)\nclass A:\n    b: int\n",
        "class A:\n    b: int = field(repr=False)\n",
        "logger.info('%d', 1)\nlogger.debug('%d', 1)\n",
    ],
)
def test_mutants_leave_what_only_programmers_see_alone(source: str) -> None:
    assert list(mutants(source)) == []


def test_mutants_turn_false_into_true_but_not_into_none() -> None:
    assert [str(mutant) for mutant in mutants("def f():\n    return False\n")] == ["False  ->  True"]


def test_mutants_leave_warnings_out_of_the_log() -> None:
    assert [str(mutant) for mutant in mutants("logger.warning('late')\n")] == ["logger.warning('late')  ->  pass"]


def test_judged_mutant_is_told_from_others_of_the_same_change_by_a_piece_of_its_line() -> None:
    entry = {"file": "a.py", "change": "1  ->  2", "within": "b ="}
    first, second = mutants("a = 1\nb = 1\n")
    assert [program.is_judged(mutant, Path("a.py"), entry) for mutant in (first, second)] == [False, True]
    assert not program.is_judged(second, Path("b.py"), entry)


def test_mutants_differ_from_the_source_in_one_place_and_can_be_parsed() -> None:
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    for mutant in mutants(SOURCE):
        lines = ast.unparse(ast.parse(mutant.source)).splitlines()
        assert len(lines) == len(plain)
        assert sum(one != other for one, other in zip(lines, plain, strict=True)) == 1


@pytest.mark.parametrize("subject", program.SUBJECTS)
def test_subject_of_the_mutants_and_its_tests_exist(subject: str) -> None:
    assert all((program.ROOT / path).is_file() for path in program.sources(subject))
    tests = [*program.SUBJECTS[subject], *program.wide(subject)]
    assert all((program.ROOT / "tests" / path).exists() for path in tests)


def test_mutants_drawn_with_one_seed_are_the_same_and_leave_the_judged_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = ["evenhand.store.accounts"]
    first = program.chosen(subject, 5, 1)
    assert first == program.chosen(subject, 5, 1) != program.chosen(subject, 5, 2)
    _, path, mutant = first[0]
    judged = tmp_path / "judged.toml"
    judged.write_text(f"[[mutant]]\nfile = '{path}'\nchange = '''{mutant}'''\nwhy = 'a test'\n", encoding="utf-8")
    monkeypatch.setattr(program, "JUDGED", judged)
    assert str(mutant) not in {str(left) for _, _, left in program.chosen(subject, 0, 1)}


def test_judged_mutants_still_exist_and_say_why() -> None:
    for entry in program._judged():
        path = Path(entry["file"])
        source = (program.ROOT / path).read_text(encoding="utf-8")
        assert any(program.is_judged(mutant, path, entry) for mutant in mutants(source)), entry
        assert entry["why"]
