"""A project's settings: the same keys in Label Studio's extra_params, the command line, the API and the dashboard."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from backend.errors import ConfigurationError

FieldName = Annotated[str, Field(min_length=1, max_length=200)]


class Publish(BaseModel):
    """What may be written to Label Studio; everything is off until somebody switches it on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    predictions: bool = False
    tab: bool = False
    alerts: bool = False
    pseudonyms: bool = False


class ProjectConfig(BaseModel):
    """Which answers are compared, how they are judged, when, and what is published."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, allow_inf_nan=False)

    control: FieldName | None = Field(None, description="Name of the control that holds the answer.")
    item_left: FieldName | None = Field(None, description="Task data field that names the left item.")
    item_right: FieldName | None = Field(None, description="Task data field that names the right item.")
    coin: FieldName | None = Field(None, description="Task data field with the id of the coin that placed the sides.")
    sides: Literal["audit", "random", "not random"] = Field(
        "audit", description="'audit': test whether sides were random; 'random' or 'not random': the owner's statement."
    )
    stratum: FieldName | None = Field(None, description="Task data field with the prompt or stratum.")
    outcomes: dict[str, Annotated[float, Field(ge=-1, le=1)]] | None = Field(
        None, description="Answer to outcome: 1 left preferred, -1 right, 0 tie."
    )
    q: float = Field(0.1, gt=0, lt=1, description="Target false discovery rate.")
    min_bias: float = Field(0.1, ge=0, le=1, description="Smallest bias worth a flag.")
    method: Literal["auto", "flip", "paper"] = Field("auto", description="Knockoff construction.")
    path: Literal["lbi", "iss", "lasso", "marginal"] = Field("lbi", description="Regularisation path.")
    cut: Literal["knockoff", "knockoff+"] = Field("knockoff+", description="Selection rule.")
    copies: int | None = Field(None, ge=1, le=50, description="Knockoff copies; empty: by the number of annotators.")
    draws: int = Field(21, ge=1, le=1001, description="Draws per run.")
    every_minutes: float | None = Field(60.0, ge=0.1, le=1e6, description="Run at most this often; empty: never.")
    every_answers: int | None = Field(200, ge=1, description="Run after this many new answers; empty: never.")
    publish: Publish = Field(Publish(), description="What is written to Label Studio.")
    count_ground_truth: bool = Field(True, description="Judge annotations marked as ground truth too.")
    count_predictions: bool = Field(False, description="Judge answers that came from a shown prediction too.")

    @field_validator("outcomes", mode="before")
    @classmethod
    def _outcomes_from_text(cls, value: object) -> object:
        """Accept JSON text or left=1,tie=0,right=-1."""
        if not isinstance(value, str):
            return value
        if not value.strip():
            return None
        if value.lstrip().startswith("{"):
            return _json_or_same(value)
        return {name.strip(): number for name, _, number in (part.rpartition("=") for part in value.split(","))}

    @field_validator("publish", mode="before")
    @classmethod
    def _publish_from_text(cls, value: object) -> object:
        """Accept true/false, a comma list of switches, a list of them, or an object."""
        if isinstance(value, str) and value.lstrip().startswith("{"):
            return _json_or_same(value)
        if isinstance(value, str) and value.strip().lower() in ("true", "false", "all", "none", ""):
            value = value.strip().lower() in ("true", "all")
        if isinstance(value, bool):
            return {"predictions": value, "tab": value, "alerts": value}
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        if isinstance(value, list):
            return {str(name): True for name in value}
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_default(cls, value: object, info: Any) -> object:
        """Forms send empty text for 'not set'."""
        if isinstance(value, str) and not value.strip() and info.field_name not in ("publish", "outcomes"):
            return cls.model_fields[info.field_name].get_default()
        return value

    def to_json(self) -> dict[str, Any]:
        """Every key with its value, fit for JSON."""
        return self.model_dump(mode="json")


KEYS: tuple[str, ...] = tuple(ProjectConfig.model_fields)


def parse_config(values: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> ProjectConfig:
    """Lay `values` over `base` (default: the defaults) and validate; raises ConfigurationError."""
    unknown = sorted(str(key) for key in values if key not in KEYS)
    if unknown:
        raise ConfigurationError(f"unknown project setting {', '.join(map(repr, unknown))}; known: {', '.join(KEYS)}")
    try:
        return ProjectConfig.model_validate({**(base or {}), **values})
    except ValidationError as error:
        raise ConfigurationError("; ".join(_message(detail) for detail in error.errors())) from error


def known_only(values: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `values` whose keys are project settings."""
    return {key: value for key, value in values.items() if key in KEYS}


def _message(detail: Any) -> str:
    """One validation problem in words: where, what was seen, what was expected."""
    where = ".".join(str(part) for part in detail["loc"]) or "settings"
    return f"project setting {where!r} is {str(detail.get('input'))[:80]!r}: {detail['msg']}"


def _json_or_same(text: str) -> object:
    """Decoded JSON, or the text itself so that validation names it."""
    try:
        return json.loads(text)
    except ValueError:
        return text
