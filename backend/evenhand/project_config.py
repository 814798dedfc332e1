"""A project's settings: the same keys on the command line, in the API and on the dashboard."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from evenhand.errors import UnusableValueError
from fdr_core.errors import ConfigurationError
from fdr_core.inputs.label_studio.words import answers_from
from fdr_core.options import BY_NAME, LBI_WORDS, Options
from fdr_core.paper.knockoff_lbi import KnockoffLBI, text_of

Judges = Literal["people", "predictions", "both"]
AfterConfirm = Literal["nothing", "relabel", "overlap"]
FieldName = Annotated[str, Field(min_length=1, max_length=200)]


def _option(name: str) -> Any:
    """A setting that is an option of `detect`; its range is checked by the same table."""
    return Field(BY_NAME[name].default, description=BY_NAME[name].words)


class UnfitSettingsError(UnusableValueError):
    """Settings that do not fit; `fields` has, by setting, a sentence for whoever typed it."""

    def __init__(self, message: str, fields: Mapping[str, str]) -> None:
        super().__init__(message)
        self.fields = fields


class Publish(BaseModel):
    """What may be written to Label Studio; everything is off until somebody switches it on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    predictions: bool = False
    tab: bool = False
    columns: bool = False  # into tasks' data, so that tabs can show them: never unless it is named
    alerts: bool = False
    pseudonyms: bool = False


class ProjectConfig(BaseModel):
    """Which answers are compared, how they are judged, when, and what is published."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, allow_inf_nan=False)

    control: FieldName | None = Field(None, description="Name of the control that holds the answer.")
    controls: Annotated[tuple[FieldName, ...], Field(max_length=20)] = Field(
        (), description="Several controls by name: judged together, or apart if --control names the one that decides."
    )
    item_left: FieldName | None = Field(None, description="Task data field that names the left item.")
    item_right: FieldName | None = Field(None, description="Task data field that names the right item.")
    coin: FieldName | None = Field(None, description="Task data field with the id of the coin that placed the sides.")
    stratum: FieldName | None = Field(None, description="Task data field with the prompt or stratum.")
    answers: dict[str, float | str] | None = Field(
        None,
        max_length=1000,
        description="What answers mean whose words do not tell: left, right, tie, both, neither, skip, or -1 to 1.",
    )
    judges: Judges = Field(
        "people", description="Whose answers are judged: people, predictions (LLM judges by model version), or both."
    )
    q: float = _option("q")
    min_bias: float = _option("min_bias")
    sides: str = _option("sides")
    decide_by: str = _option("decide_by")
    consensus: str = _option("consensus")
    parts: str = _option("parts")
    lbi: str = Field("", description=LBI_WORDS)
    leans: Annotated[tuple[Literal["length", "format", "agreement"], ...], Field(max_length=3)] = Field(
        (), description="Leans beyond position, by commas: length, format, agreement; empty: none."
    )
    lean_gold: Annotated[tuple[FieldName, ...], Field(max_length=200)] = Field(
        (),
        description="Whose answers tell quality: user ids or e-mail addresses, or ground_truth for answers marked so.",
    )
    every_minutes: float | None = Field(
        60.0,
        ge=0.1,
        le=1e6,
        description="Minutes after which a run is due if there is something new; empty: no runs by the clock.",
    )
    every_answers: int | None = Field(200, ge=1, description="Run after this many new answers; empty: never.")
    publish: Publish = Field(
        Publish(), description="What is written to Label Studio: predictions, tab, columns, alerts."
    )
    review_tasks: int = Field(30, ge=1, le=200, description="How many of the heaviest tasks a review tab shows.")
    after_confirm: AfterConfirm = Field(
        "nothing", description="What follows a confirmed flag: nothing, a project to label anew, or more overlap."
    )
    one_sided: bool = Field(
        False, description="Answers that are all for one side, or one answer throughout, are meant: no wrong reading."
    )
    count_ground_truth: bool = Field(True, description="Judge annotations marked as ground truth too.")
    count_predictions: bool = Field(False, description="Judge answers that came from a shown prediction too.")

    pull_only: bool = Field(
        False,
        description="Label Studio cannot call this service: pulls alone bring answers, nothing is registered there.",
    )
    reviewers: Annotated[tuple[FieldName, ...], Field(max_length=200)] = Field(
        (), description="Who may decide: user ids, e-mail addresses or account names; empty: every reviewer."
    )

    @field_validator("reviewers", "controls", "leans", "lean_gold", mode="before")
    @classmethod
    def _names_from_text(cls, value: object) -> object:
        """Accept a comma list."""
        if value is None:
            return ()
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

    @field_validator("controls")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """A control named twice counts once."""
        return tuple(dict.fromkeys(value))

    @field_validator(*BY_NAME)
    @classmethod
    def _within_range(cls, value: object, info: Any) -> object:
        """Refuse what `detect` would refuse."""
        option = BY_NAME[info.field_name]
        if not option.fits(value):
            raise ValueError(f"expected {option.expected}")
        return value

    @field_validator("lbi", mode="before")
    @classmethod
    def _lbi_in_one_form(cls, value: object) -> object:
        """Accept names with values as text or as an object, null for off; kept is what differs from the defaults."""
        if value is not None and not isinstance(value, str | Mapping):
            raise ValueError("expected names with values such as draws=50,path=iss, or off")
        text = ",".join(f"{k}={v}".lower() for k, v in value.items()) if isinstance(value, Mapping) else value
        try:
            return "off" if text is None else text_of(KnockoffLBI.parse(text))
        except ConfigurationError as error:
            raise ValueError(str(error)) from error

    @field_validator("answers", mode="before")
    @classmethod
    def _answers_from_text(cls, value: object) -> object:
        """Accept JSON text or A is worse=right,Same=tie, and check what every answer is said to mean."""
        if isinstance(value, str):
            value = value if value.strip() else None
        return answers_from(value) if isinstance(value, (str, Mapping)) else value

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
        if isinstance(value, str) and not value.strip() and info.field_name not in ("publish", "answers", "reviewers"):
            return cls.model_fields[info.field_name].get_default()
        return value

    def detection(self) -> dict[str, Any]:
        """The options that `detect` is called with."""
        return {**{name: getattr(self, name) for name in BY_NAME}, "lbi": KnockoffLBI.parse(self.lbi)}

    @property
    def options(self) -> Options:
        """The same, checked together."""
        return Options(**self.detection())

    def to_json(self) -> dict[str, Any]:
        """Every key with its value, fit for JSON."""
        return self.model_dump(mode="json")


KEYS: tuple[str, ...] = tuple(ProjectConfig.model_fields)


def parse_config(values: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> ProjectConfig:
    """Lay `values` over `base` (default: the defaults) and validate; raises UnusableValueError."""
    unknown = sorted(str(key) for key in values if key not in KEYS)
    if unknown:
        raise UnusableValueError(f"unknown project setting {', '.join(map(repr, unknown))}; known: {', '.join(KEYS)}")
    try:
        config = ProjectConfig.model_validate({**(base or {}), **values})
        if len(config.controls) > 1 and "control" not in values and len((base or {}).get("controls") or ()) < 2:
            # Nobody said of the only control so far that it decides among several.
            config = config.model_copy(update={"control": None})
        _ = config.options
    except ValidationError as error:
        message = "; ".join(_message(detail) for detail in error.errors())
        raise UnfitSettingsError(message, dict(map(_for_people, error.errors()))) from error
    except ConfigurationError as error:
        raise UnusableValueError(f"project settings do not go together: {error}") from error
    return config


def _message(detail: Any) -> str:
    """One validation problem in words: where, what was seen, what was expected."""
    where = ".".join(str(part) for part in detail["loc"]) or "settings"
    return f"project setting {where!r} is {str(detail.get('input'))[:80]!r}: {detail['msg']}"


def _for_people(detail: Any) -> tuple[str, str]:
    """The setting that does not fit, and what to type instead."""
    key = ".".join(str(part) for part in detail["loc"][: 2 if detail["loc"][:1] == ("publish",) else 1])
    if key == "lbi":
        return key, f"lbi: {str(detail['msg']).removeprefix('Value error, ')}"
    option = BY_NAME.get(key)
    wanted = (
        option.expected if option else str(detail["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    )
    return key, f"{key} must be {wanted}; you typed {str(detail.get('input'))[:80]}"


def _json_or_same(text: str) -> object:
    """Decoded JSON, or the text itself so that validation names it."""
    try:
        return json.loads(text)
    except ValueError:
        return text
