"""Engines: the same statistics and findings from DuckDB, Spark and memory, and refusals that say what was seen."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fdr_core import (
    Comparisons,
    ConfigurationError,
    InputError,
    KnockoffLBI,
    MissingExtraError,
    SufficientStatistics,
    detect,
)
from fdr_core.engines import duck, read_statistics, sum_comparisons
from fdr_core.engines.assembly import _ranks, _ranks_of
from fdr_core.engines.expression import load_ibis, sums_expression
from fdr_core.simulate import large_crowd, small_team, unique_pairs

MASTER = "local[2]"


def read(sources: Path | list[Path], engine: str) -> SufficientStatistics:
    paths = sources if isinstance(sources, list) else [sources]
    return read_statistics([str(path) for path in paths], engine=engine, master=MASTER if engine == "spark" else None)


def assert_same(found: SufficientStatistics, expected: SufficientStatistics) -> None:
    """Equal to the last bit: labels, answers and sums."""
    assert found.annotators.tolist() == expected.annotators.tolist()
    assert found.items.tolist() == expected.items.tolist()
    assert found.coin_source == expected.coin_source
    for name in ("annotator", "left", "right", "outcome", "coin", "weight"):
        np.testing.assert_array_equal(getattr(found.answers(), name), getattr(expected.answers(), name), err_msg=name)
    for name in ("counts", "Dy", "Ay"):
        np.testing.assert_array_equal(getattr(found.sums, name), getattr(expected.sums, name), err_msg=name)
    assert (found.sums.pairs != expected.sums.pairs).nnz == 0
    assert (found.sums.B != expected.sums.B).nnz == 0
    assert (found.sums.yy, found.sums.n) == (expected.sums.yy, expected.sums.n)


def assert_same_verdicts(found: SufficientStatistics, expected: SufficientStatistics) -> None:
    """Equal flags and an equal table, bit by bit."""
    here, there = (detect(data, sides="random", lbi=KnockoffLBI(draws=5)) for data in (found, expected))
    assert here.flagged == there.flagged
    pd.testing.assert_frame_equal(here.annotators, there.annotators, check_exact=True)
    pd.testing.assert_frame_equal(here.ranking, there.ranking, check_exact=True)


def frames() -> dict[str, pd.DataFrame]:
    """One table per way of writing answers."""
    rng = np.random.default_rng(11)
    team = small_team(12, 3, 60, rng=rng).comparisons.to_frame()
    words = team.drop(columns="outcome").assign(choice=team["outcome"].map({1.0: "left", -1.0: " Right "}))
    words.loc[rng.random(len(words)) < 0.1, "choice"] = "TIE"
    names = team.assign(annotator="person " + team["annotator"].astype(str), left="é" + team["left"].astype(str))
    names["right"] = "é" + team["right"].astype(str)
    graded = large_crowd("H5", rng=rng).comparisons.to_frame().head(3000)
    asked_again = unique_pairs(rng=rng).comparisons.to_frame()
    asked_again["outcome"] *= rng.choice([1 / 3, 2 / 3, 1.0], len(asked_again))
    asked_again = pd.concat([asked_again, asked_again.sample(500, replace=True, random_state=1)])
    winners = team.drop(columns="outcome").rename(columns={"annotator": "worker"})
    winners["label"] = np.where(team["outcome"] > 0, team["left"], team["right"])
    return {
        "words": words,
        "names": names,
        "graded": graded,
        "coins": asked_again,
        "tasks": asked_again.rename(columns={"coin": "task"}),
        "crowd-kit": winners,
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    for name, frame in frames().items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet", index=False)
    return folder


def in_memory(path: Path) -> SufficientStatistics:
    load = Comparisons.from_csv if path.suffix == ".csv" else Comparisons.from_parquet
    return sum_comparisons(load(path))


KINDS = ("words", "names", "graded", "coins", "tasks", "crowd-kit")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_duckdb_every_way_of_writing_answers_equals_memory(files: Path, kind: str, suffix: str) -> None:
    path = files / f"{kind}{suffix}"
    assert_same(read(path, "duckdb"), in_memory(path))


def test_duckdb_verdicts_equal_memory_and_any_order_of_rows(files: Path, tmp_path: Path) -> None:
    expected = in_memory(files / "coins.csv")
    assert_same_verdicts(read(files / "coins.csv", "duckdb"), expected)
    shuffled = tmp_path / "shuffled.csv"
    pd.read_csv(files / "coins.csv", dtype=str).sample(frac=1.0, random_state=3).to_csv(shuffled, index=False)
    assert_same(read(shuffled, "duckdb"), expected)
    assert_same(in_memory(shuffled), expected)


def test_duckdb_csv_and_parquet_of_one_table_are_judged_alike(files: Path) -> None:
    assert_same(read(files / "words.csv", "duckdb"), read(files / "words.parquet", "duckdb"))


@pytest.mark.spark
@pytest.mark.slow
def test_spark_words_grades_coins_and_winners_equal_memory_in_sums_and_verdicts(files: Path) -> None:
    for name in ("words.csv", "graded.parquet", "crowd-kit.parquet"):
        assert_same(read(files / name, "spark"), in_memory(files / name))
    found, expected = read(files / "coins.csv", "spark"), in_memory(files / "coins.csv")
    assert_same(found, expected)
    assert_same_verdicts(found, expected)


def pieces(folder: Path, frame: pd.DataFrame) -> Path:
    """A table in five files of three kinds, columns in different orders, beside things that are not data."""
    folder.mkdir()
    parts = [frame.iloc[start::5] for start in range(5)]
    parts[0].to_csv(folder / "a.csv", index=False)
    parts[1][parts[1].columns[::-1]].to_csv(folder / "b [old]*.csv", index=False, sep=";")
    with gzip.open(folder / "c.csv.gz", "wt") as file:
        parts[2].assign(remark="x, y").to_csv(file, index=False)
    (folder / "sub").mkdir()
    parts[3].astype({"annotator": "int32"}).to_parquet(folder / "sub" / "d.parquet", index=False)
    parts[4].to_parquet(folder / "sub" / "e.parquet", index=False)
    (folder / "_SUCCESS.csv").write_text("")
    (folder / "notes.txt").write_text("not data")
    return folder


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_folder_of_mixed_files_equals_one_file(files: Path, tmp_path: Path, engine: str) -> None:
    frame = frames()["words"]
    folder = pieces(tmp_path / "pieces", frame)
    assert_same(read(folder, engine), sum_comparisons(Comparisons.from_frame(frame)))
    if engine == "duckdb":
        csv = read_statistics([str(folder / "[!_]*.csv*"), str(folder / "sub")], engine=engine)
        assert len(csv) == len(frame)


def test_duckdb_takes_less_where_the_process_may_address_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (5_000_000_000, 5_000_000_000))
    assert duck._memory_limit() == "1000MB"
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)
    assert duck._memory_limit() == duck.MEMORY_LIMIT


def test_duckdb_memory_limit_below_the_data_spills_and_gives_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 300_000
    table = {"annotator": rng.integers(0, 300, n), "left": rng.integers(0, 50, n), "right": rng.integers(50, 99, n)}
    frame = pd.DataFrame({**table, "outcome": rng.choice([-1, 1], n), "coin": [f"coin of task {i}" for i in range(n)]})
    frame.to_parquet(tmp_path / "large.parquet", index=False)
    path = str(tmp_path / "large.parquet")
    assert_same(read_statistics([path], memory_limit="60MB"), read_statistics([path]))


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_rows_that_are_no_comparisons_are_refused_with_value_and_count(tmp_path: Path, engine: str) -> None:
    cases = {
        "annotator,left,right,choice\na,x,y,left\na,x,y,lft\nb,x,y,lft\n": "the choice of 2 answers .* 'lft'; expected",
        "annotator,left,right,outcome\na,x,y,1\nb,x,y,2\n": "the outcome of 1 answer cannot .* '2'; expected a number",
        "annotator,left,right,outcome\na,x,y,true\nb,x,y,false\n": "outcome holds true/false",
        "annotator,left,right,choice\na,x,,left\nb,x,y,left\n": "no right item for 1 of 2 answers",
        'annotator,left,right,choice\n"",x,y,left\nb,x,y,left\n': "no annotator for 1 of 2 answers",
        "annotator,left,right,choice\na,x,x,left\na,x,y,tie\n": "compared with itself in 1 answer, such as 'x'",
        "annotator,left,right,choice,coin\na,x,y,left,\nb,x,y,tie,c\n": "no coin for 1 of 2 answers",
        "worker,left,right,label\na,x,y,z\n": "the label of 1 answer cannot be read, such as 'z'",
        "annotator,left,right,choice\na,x,y,left\nb,x\n": "cannot be read: .*b,x",
        "annotator,left,right,choice\n": "there are no answers",
    }
    for number, (content, message) in enumerate(cases.items()):
        path = tmp_path / f"{number}.csv"
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            read(path, engine)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("annotator,left,choice\na,x,left\n", "column right is missing"),
        ("annotator,left,right,choice,choice\na,x,y,left,left\n", "column choice occurs more than once"),
        ("annotator,left,right,choice,outcome\na,x,y,left,1\n", "found both choice and outcome"),
        ("", "is empty"),
        ('[{"id": 1}]', "looks like a Label Studio export"),
    ],
)
def test_duckdb_headers_are_refused_with_the_words_of_the_loader(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / ("answers.csv" if "Label Studio" not in message else "answers")
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read(path, "duckdb")


def test_duckdb_sources_without_files_or_of_two_minds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no file with a name in"):
        read(tmp_path / "empty", "duckdb")
    with pytest.raises(InputError, match="there is no such file"):
        read(tmp_path / "nowhere.csv", "duckdb")
    with pytest.raises(InputError, match="no file matches"):
        read_statistics([str(tmp_path / "*.parquet")])
    with pytest.raises(InputError, match="is an address"):
        read_statistics(["hdfs://host/answers"])
    (tmp_path / "a.csv").write_text("annotator,left,right,choice\na,x,y,left\n")
    (tmp_path / "b.csv").write_text("annotator,left,right,outcome\na,x,y,1\n")
    with pytest.raises(InputError, match="do not agree on their columns"):
        read([tmp_path / "a.csv", tmp_path / "b.csv"], "duckdb")
    with pytest.raises(ConfigurationError, match="expected one of duckdb, spark"):
        read_statistics([str(tmp_path / "a.csv")], engine="polars")


def test_duckdb_not_utf8_and_truncated_files_are_refused(tmp_path: Path, files: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("annotator,left,right,choice\nJosé,x,y,left\n".encode("latin-1"))
    with pytest.raises(InputError):
        read(tmp_path / "latin.csv", "duckdb")
    (tmp_path / "cut.parquet").write_bytes((files / "words.parquet").read_bytes()[:-100])
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "cut.parquet", "duckdb")


def test_sums_expression_is_one_group_by_on_every_dialect() -> None:
    ibis = load_ibis()
    columns = {"annotator": "string", "left": "string", "right": "string", "outcome": "float64", "coin": "string"}
    expression = sums_expression(ibis.table(columns, name="answers"))
    for dialect in ("duckdb", "postgres"):
        assert str(ibis.to_sql(expression, dialect=dialect)).count("GROUP BY") == 1


def test_statistics_from_an_engine_cannot_be_changed(files: Path) -> None:
    summed = read(files / "words.csv", "duckdb")
    changes: tuple[Callable[[], object], ...] = (
        lambda: summed.add("a", "x", "y", 1.0),
        lambda: summed.merge(SufficientStatistics()),
        lambda: SufficientStatistics().merge(summed),
    )
    for change in changes:
        with pytest.raises(InputError, match="summed by an engine"):
            change()


def test_engines_without_the_extra_name_it(monkeypatch: pytest.MonkeyPatch, files: Path) -> None:
    monkeypatch.setitem(sys.modules, "ibis", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'evenhand\[engines\]'"):
        read(files / "words.csv", "duckdb")
    with pytest.raises(MissingExtraError, match=r"pip install 'evenhand\[spark\]'"):
        read(files / "words.csv", "spark")


@pytest.mark.slow
def test_spark_without_java_says_what_to_install(files: Path) -> None:
    command = [sys.executable, "-m", "evenhand.cli", "analyze", str(files / "words.csv"), "--json", "--engine", "spark"]
    ended = subprocess.run(command, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=180, check=False)
    assert ended.returncode == 2
    assert "Spark needs Java 17 or newer and found none" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "labels", [["10", "9", "-3", "0"], ["b", "B", "é", "10", "9"], ["01", "1"], ["7", "7", "1"], []]
)
def test_labels_are_ranked_alike_with_and_without_arrow(labels: list[str]) -> None:
    pa = pytest.importorskip("pyarrow")
    assert _ranks(labels).tolist() == _ranks_of(pa.array(labels, type=pa.large_string())).tolist()
