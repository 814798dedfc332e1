"""A plain `pip install evenhand` brings five packages: what works with them, and who says what is missing."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from evenhand.cli import COMMANDS, EXTRAS, TOGETHER, main

from fdr_core.report import FILES
from tests.core.inputs.samples import SAMPLES

ROOT = Path(__file__).resolve().parent.parent
#: Hides everything that the extras bring from a new process.
HIDE = f"""
import sys
from importlib.abc import MetaPathFinder
HIDDEN = {sorted(EXTRAS)!r}
class Hide(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in HIDDEN:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Hide())
"""


def light(code: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a new process without the extras."""
    return subprocess.run([sys.executable, "-c", HIDE + code], capture_output=True, text=True, cwd=folder or ROOT)


def program(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return light(f"from evenhand.cli import main\nmain({[str(argument) for argument in arguments]!r})", folder)


def commands(*lines: Sequence[object], folder: Path | None = None) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of several commands, given in one process, since its start takes longest."""
    code = f"""
import json
from click.testing import CliRunner
from evenhand.cli import main
done = [CliRunner().invoke(main, line) for line in {[[str(word) for word in line] for line in lines]!r}]
print(json.dumps([[one.exit_code, one.stdout, one.stderr] for one in done]))
"""
    ran = light(code, folder)
    assert ran.returncode == 0, ran.stderr
    return [(exit_code, out, errors) for exit_code, out, errors in json.loads(ran.stdout)]


def test_dependencies_are_five_and_extras_bring_what_the_program_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [entry.partition(">")[0] for entry in project["dependencies"]]
    assert names == ["numpy", "scipy", "pandas", "click", "jinja2"]
    for module, extra in EXTRAS.items():
        declared = " ".join(project["optional-dependencies"][extra])
        assert module.replace("_", "-") in declared, f"{extra} does not bring {module}"


@pytest.mark.slow
def test_library_without_extras_detects(tmp_path: Path) -> None:
    code = (
        "import numpy as np\nfrom fdr_core import KnockoffLBI, detect\nfrom fdr_core.simulate import small_team\n"
        "print(detect(small_team(12, 2, 100, rng=np.random.default_rng(0)).comparisons, lbi=KnockoffLBI(draws=1)))"
    )
    done = light(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "annotators flagged" in done.stdout


@pytest.mark.slow
def test_doctor_without_extras_reads_files() -> None:
    names = ("columns.csv", "fastchat_pairs.jsonl", "label_studio.json", "chatbot_arena_55k.csv")
    for exit_code, out, errors in commands(*[("doctor", SAMPLES / name) for name in names]):
        assert exit_code == 0, errors
        assert "Columns:" in out


@pytest.mark.slow
def test_csv_without_arrow_is_as_strict_about_rows(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("annotator,left,right,choice\na,x,y,left,1,2\n")
    (tmp_path / "zeros.csv").write_text("annotator,left,right,choice\n007,x,y,left\n7,y,x,left\n")
    (exit_code, _, errors), (_, out, _) = commands(("doctor", "long.csv"), ("doctor", "zeros.csv"), folder=tmp_path)
    assert (exit_code, "cannot be read" in errors) == (2, True)
    assert "annotators: 2" in out


def test_commands_on_files_without_extras_do_all_their_work(tmp_path: Path) -> None:
    """Each in one process where Flask, SQLAlchemy, requests, pydantic and the rest cannot be imported."""
    crowd, texts, pairs = tmp_path / "crowd.csv", tmp_path / "texts.csv", tmp_path / "pairs.csv"
    texts.write_text("item,text\n" + "".join(f"item {k},words {k}\n" for k in range(20)), encoding="utf-8")
    pairs.write_text("left,right\na,b\nb,c\n", encoding="utf-8")
    lines: dict[tuple[object, ...], int] = {
        ("simulate", crowd, "--annotators", 6, "--answers", 20): 0,
        ("analyze", crowd, "--lbi", "draws=1", "--out", tmp_path / "report"): 0,
        ("doctor", crowd): 0,
        ("export-preferences", crowd, "--texts", texts): 0,
        ("selftest", crowd, "--runs", 1, "--lbi", "draws=1"): 0,
        ("prepare", pairs, "--out", tmp_path / "tasks"): 0,
        ("gate", SAMPLES / "recorder.jsonl"): 3,
    }
    done = commands(*lines)
    assert [exit_code for exit_code, _, _ in done] == list(lines.values()), done
    assert {path.name for path in (tmp_path / "report").iterdir()} == {*FILES} - {"leans.csv"}
    assert b"<!DOCTYPE html>" in (tmp_path / "report" / "report.html").read_bytes()


def test_modules_of_the_library_import_what_extras_bring_inside_functions_only() -> None:
    code = (
        "import importlib, pkgutil, fdr_core\n"
        "for module in pkgutil.walk_packages(fdr_core.__path__, 'fdr_core.'):\n"
        "    if not module.name.endswith('.pytest_gate'):\n        importlib.import_module(module.name)\n"
    )
    done = light(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [(("serve",), "server"), (("doctor",), "server")],
)
def test_command_without_its_extra_says_which_one_it_wants(command: tuple[object, ...], extra: str) -> None:
    done = program(*command)
    assert done.returncode == 2
    assert f"pip install 'evenhand[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_parquet_and_the_exact_solver_without_their_extras_say_which_they_want(tmp_path: Path) -> None:
    import pandas as pd

    pd.DataFrame({"annotator": ["a"], "left": ["x"], "right": ["y"], "choice": ["left"]}).to_parquet(
        tmp_path / "a.parquet"
    )
    done = program("doctor", "a.parquet", folder=tmp_path)
    assert "pip install 'evenhand[files]'" in done.stderr
    code = (
        "import numpy as np\nfrom fdr_core import KnockoffLBI, detect\nfrom fdr_core.simulate import paper_study\n"
        "from fdr_core.paper import slack\nslack._semidefinite_program(np.zeros((2, 2)))"
    )
    assert 'pip install "evenhand[paper]"' in light(code).stderr


# Each of these takes longer to load than Python itself.
@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import fdr_core", {"numpy", "pandas", "scipy"}),
        ("from fdr_core import detect", {"scipy.stats", "scipy.optimize", "jinja2", "matplotlib", "ibis", "duckdb"}),
        ("import fdr_core.judges.gate, fdr_core.other_leans", {"scipy.stats", "scipy.optimize", "jinja2"}),
        ("from evenhand.cli import main; main(['analyze', '--help'])", {"numpy", "pandas", "scipy", "jinja2"}),
        ("from evenhand.cli import main; main(['analyze', '--q', 'x'])", {"numpy", "pandas", "scipy", "jinja2"}),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str, heavy: set[str]) -> None:
    told = f"import atexit, sys\natexit.register(lambda: print('loaded', sorted({heavy!r} & sys.modules.keys())))\n"
    done = subprocess.run([sys.executable, "-c", told + code], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stderr
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_service_is_up_before_numerics_and_migrations_are_loaded() -> None:
    heavy = ("pandas", "scipy", "pyarrow", "alembic")
    code = f"import sys, evenhand.app, evenhand.commands.operate; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_lists_every_command_and_imports_none() -> None:
    folders = (ROOT / "fdr_core" / "commands", ROOT / "backend" / "evenhand" / "commands")
    modules = [path.stem.replace("_", "-") for folder in folders for path in folder.glob("[!_]*.py")]
    assert {TOGETHER.get(name, name) for name in COMMANDS} == set(modules)
    code = (
        "from evenhand.cli import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n    loaded = [name for name in sys.modules if '.commands.' in name]\n"
        "    assert loaded == [], loaded"
    )
    done = light(code)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_line_of_a_command_is_a_sentence_and_the_command_exists(name: str) -> None:
    assert COMMANDS[name].endswith(".")
    assert main.get_command(click.Context(main), name) is not None


def test_mistyped_command_is_answered_with_the_one_meant() -> None:
    done = program("anlyze", "x")
    assert "Did you mean 'analyze'?" in done.stderr
