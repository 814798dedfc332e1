"""One table of API operations: it registers the routes, reads their parameters and describes them."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from flask import Blueprint, Response, jsonify, request

from evenhand.errors import PayloadError
from evenhand.json_values import clean

BIGGEST = 2**63 - 1
ID = f"int(min=1,max={BIGGEST})"
Schema = Mapping[str, Any]
View = TypeVar("View", bound=Callable[..., Any])
OBJECT: Schema = {"type": "object"}
TEXT: Schema = {"type": "string"}
ERROR: Schema = {
    "type": "object",
    "required": ["ok", "error"],
    "properties": {
        "ok": {"const": False},
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        },
    },
}


@dataclass(frozen=True)
class Param:
    """One query parameter."""

    name: str
    kind: Literal["string", "integer", "boolean"]
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None

    def read(self, text: str | None) -> Any:
        """The parameter's value; raises PayloadError with what was expected."""
        if text is None:
            return self.default
        if self.kind == "boolean":
            if text.lower() not in ("true", "false"):
                raise PayloadError(f"{self.name} is {text[:60]!r}; expected true or false")
            return text.lower() == "true"
        if self.kind == "integer":
            low, high = self.low if self.low is not None else -BIGGEST, self.high or BIGGEST
            if not re.fullmatch(r"-?[0-9]{1,19}", text) or not low <= int(text) <= high:
                raise PayloadError(f"{self.name} is {text[:60]!r}; expected a whole number from {low} to {high}")
            return int(text)
        if self.choices and text not in self.choices:
            raise PayloadError(f"{self.name} is {text[:60]!r}; expected one of {', '.join(self.choices)}")
        return clean(text)

    def describe(self) -> dict[str, Any]:
        """The OpenAPI form."""
        schema: dict[str, Any] = {"type": self.kind}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.low is not None:
            schema["minimum"] = self.low
        if self.kind == "integer":
            schema["maximum"] = self.high or BIGGEST
        if self.default is not None:
            schema["default"] = self.default
        return {"name": self.name, "in": "query", "description": self.help, "schema": schema}


PAGING = (
    Param("limit", "integer", "Rows per page.", default=100, low=1, high=1000),
    Param("cursor", "string", "`next` of the page before."),
)


@dataclass(frozen=True)
class Operation:
    """One route of the API."""

    method: str
    rule: str
    summary: str
    params: tuple[Param, ...]
    body: Schema | None
    answer: Schema
    content_type: str
    endpoint: str

    @property
    def path(self) -> str:
        """The rule in OpenAPI's notation."""
        return re.sub(r"<(?:[^:<>]+:)?([^<>]+)>", r"{\1}", self.rule)

    def describe(self) -> dict[str, Any]:
        """The OpenAPI form."""
        path_params = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": {"type": "integer", "minimum": 1, "maximum": BIGGEST} if kind else {"type": "string"},
            }
            for kind, name in re.findall(r"<(int[^:<>]*:)?(?:[a-z]+:)?([^<>]+)>", self.rule)
        ]
        failure = {"description": "refused", "content": {"application/json": {"schema": ERROR}}}
        described: dict[str, Any] = {
            "operationId": self.endpoint,
            "summary": self.summary,
            "parameters": [*path_params, *(param.describe() for param in self.params)],
            "responses": {
                "200": {"description": "done", "content": {self.content_type: {"schema": self.answer}}},
                **dict.fromkeys(("400", "401", "403", "404", "409", "413", "415", "422", "429", "503"), failure),
            },
        }
        if self.body is not None:
            described["requestBody"] = {"required": True, "content": {"application/json": {"schema": self.body}}}
        return described


class Operations:
    """The API's operations; `add` declares one and registers its route."""

    def __init__(self) -> None:
        self.table: list[Operation] = []

    def add(
        self,
        bp: Blueprint,
        method: str,
        rule: str,
        summary: str,
        *,
        prefix: str = "",
        params: Sequence[Param] = (),
        body: Schema | None = None,
        answer: Schema = OBJECT,
        content_type: str = "application/json",
    ) -> Callable[[View], View]:
        """Register a view under `rule`; a view with parameters gets them, checked, as `query`."""

        def register(view: View) -> View:
            operation = Operation(
                method, prefix + rule, summary, tuple(params), body, answer, content_type, view.__name__
            )
            self.table.append(operation)

            @functools.wraps(view)  # takes over who may call it
            def call(**path: Any) -> Any:
                path = {key: clean(value) if isinstance(value, str) else value for key, value in path.items()}
                if operation.params:
                    path["query"] = {param.name: param.read(request.args.get(param.name)) for param in params}
                result = view(**path)
                return result if isinstance(result, Response) else jsonify(result)

            bp.add_url_rule(rule, endpoint=view.__name__, view_func=call, methods=[method.upper()])
            return view

        return register

    def declare(
        self,
        method: str,
        rule: str,
        summary: str,
        *,
        content_type: str = "application/json",
        body: Schema | None = None,
        answer: Schema = TEXT,
    ) -> None:
        """Describe a route that another blueprint serves."""
        endpoint = re.sub(r"\W+", "_", rule.rsplit("/", 1)[-1])
        self.table.append(Operation(method, rule, summary, (), body, answer, content_type, endpoint))

    def describe(self, version: str) -> dict[str, Any]:
        """The whole description."""
        paths: dict[str, dict[str, Any]] = {}
        for operation in self.table:
            paths.setdefault(operation.path, {})[operation.method] = operation.describe()
        return {
            "openapi": "3.1.0",
            "info": {"title": "Evenhand", "version": version, "summary": "Position bias of annotators, live."},
            "security": [{"basic": []}, {"session": []}],
            "components": {
                "securitySchemes": {
                    "basic": {"type": "http", "scheme": "basic"},
                    "session": {"type": "apiKey", "in": "cookie", "name": "evenhand_session"},
                }
            },
            "paths": paths,
        }
