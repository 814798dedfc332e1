"""DuckDB sums tables of other tools as the loader in memory reads them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fdr_core import Comparisons, ConfigurationError, InputError, KnockoffLBI, detect
from fdr_core.engines import read_statistics, sum_comparisons

ARENA = {"annotator": "judge", "left": "model_a", "right": "model_b", "choice": "winner"}


@pytest.fixture
def battles(tmp_path: Path) -> Path:
    """Battles as Chatbot Arena writes them, in two files of different kinds."""
    rng = np.random.default_rng(0)
    n = 600
    models = np.array([f"m{k}" for k in range(8)])
    pairs = np.array([rng.choice(8, size=2, replace=False) for _ in range(n)])
    words = np.array(["model_a", "model_b", "tie", "both_bad"])
    table = pd.DataFrame(
        {
            "question_id": [f"q{k}" for k in range(n)],
            "model_a": models[pairs[:, 0]],
            "model_b": models[pairs[:, 1]],
            "winner": words[rng.integers(0, 4, size=n)],
            "judge": [f"user_{k % 20}" for k in range(n)],
        }
    )
    table[:300].to_csv(tmp_path / "one.csv", index=False)
    table[300:].to_parquet(tmp_path / "two.parquet", index=False)
    table.to_csv(tmp_path.parent / f"{tmp_path.name}.csv", index=False)
    return tmp_path


def test_engine_sums_arena_battles_as_memory_does(battles: Path) -> None:
    whole = Comparisons.from_file(battles.parent / f"{battles.name}.csv")
    by_engine, in_memory = read_statistics([str(battles)]), sum_comparisons(whole)
    assert detect(by_engine, lbi=KnockoffLBI(draws=3)).annotators.equals(
        detect(in_memory, lbi=KnockoffLBI(draws=3)).annotators
    )


def test_engine_with_a_map_equals_the_format(battles: Path) -> None:
    by_map, by_format = read_statistics([str(battles)], mapping=ARENA), read_statistics([str(battles)])
    assert len(by_map) == len(by_format) == 600
    assert list(by_map.annotators) == list(by_format.annotators)


def test_engine_without_annotators_judges_one_crowd(tmp_path: Path) -> None:
    path = tmp_path / "evalica.csv"
    path.write_text("left,right,winner\nPizza,Sushi,left\nBurger,Pasta,right\nPizza,Pasta,tie\n")
    found = read_statistics([str(path)])
    assert (list(found.annotators), len(found)) == (["everybody"], 3)


def test_engine_map_that_names_an_unknown_column_is_refused(battles: Path) -> None:
    with pytest.raises(ConfigurationError, match="--map names who"):
        read_statistics([str(battles)], mapping={"who": "judge"})
    with pytest.raises(InputError, match="column left"):
        read_statistics([str(battles)], mapping={"annotator": "judge"})
