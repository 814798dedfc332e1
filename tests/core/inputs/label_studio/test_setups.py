"""Forty-four labelling setups, fourteen of them shipped with Label Studio: how each is read, or why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fdr_core import ConfigurationError
from fdr_core.inputs.label_studio.reading import Reading, Wanted, resolve
from fdr_core.inputs.label_studio.setup import parse_label_config

SETUPS: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[3] / "data" / "label_configs.json").read_text(encoding="utf-8")
)
MANY = "".join(f'<Choice value="class {k}"/>' for k in range(2000))


def config_of(name: str) -> str:
    config = next(str(setup["config"]) for setup in SETUPS if setup["name"] == name)
    many = f'<View><Text name="p" value="$prompt"/><Choices name="pref" toName="p">{MANY}</Choices></View>'
    return many if name == "two thousand choices" else config


def reading(name: str, **wanted: Any) -> Reading:
    return resolve(Wanted(**wanted), parse_label_config(config_of(name)))


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup["name"])
def test_setup_is_read_as_expected_or_refused_with_the_remedy(setup: dict[str, Any]) -> None:
    if "refused" in setup:
        with pytest.raises(ConfigurationError) as refused:
            reading(setup["name"])
        assert setup["refused"] in str(refused.value)
        assert len(str(refused.value)) < 800
        return
    found = reading(setup["name"])
    assert (found.form, found.control) == (setup["form"], setup["control"])
    assert (list(found.items) or found.list_field) == setup["shows"]
    assert len(found.guesses) == setup.get("guesses", 0)
    if found.form == "pair":
        told = {answer: outcome for control in found.controls for answer, outcome in control.outcomes.items()}
        assert told == pytest.approx(setup["answers"], abs=0.001)
        assert sorted(found.controls[0].answers.skips) == setup.get("skips", [])


def test_most_shipped_templates_that_compare_are_read() -> None:
    shipped = [setup for setup in SETUPS if setup["name"].startswith("shipped")]
    assert (len(SETUPS), len(shipped), sum("form" in setup for setup in shipped)) == (44, 14, 10)


def test_refused_setup_is_read_with_the_option_it_names() -> None:
    mapped = reading("yes and no", control="pref", answers={"Yes": "left", "No": "right"})
    assert mapped.controls[0].outcomes == {"Yes": 1.0, "No": -1.0}
    scale = reading("shipped: pairwise-regression", control="rating", answers={"1": "left", "5": "right"})
    assert scale.controls[0].outcomes == {"1": 1.0, "2": 0.5, "3": 0.0, "4": -0.5, "5": -1.0}
    assert reading("unknown word", answers={"Meh": "skip"}).controls[0].answers.skips == {"Meh"}


def test_controls_of_different_kinds_and_places_are_refused_together() -> None:
    mixed = (
        '<View><Text name="a" value="$x1"/><Text name="b" value="$x2"/><Pairwise name="pw" toName="a,b"/>'
        '<List name="l" value="$list"/><Ranker name="rank" toName="l"/></View>'
    )
    with pytest.raises(ConfigurationError, match="different kinds cannot be read together"):
        resolve(Wanted(controls=("pw", "rank")), parse_label_config(mixed))
