"""What libraries compile for every service and every database anew, and tests need only once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pytest
from flask import Flask
from jinja2.bccache import Bucket, BytecodeCache
from sqlalchemy import Engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache
from werkzeug.routing import Rule

STATEMENTS = 4000


def keep_what_is_compiled(patch: pytest.MonkeyPatch) -> None:
    """Let templates, routes and statements outlive the services and databases they were compiled for."""
    patch.setitem(Flask.jinja_options, "bytecode_cache", _Templates())
    patch.setattr(Rule, "_compile_builder", _once(Rule._compile_builder))
    _share_statements(patch)


class _Templates(BytecodeCache):
    """What templates were compiled to."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._code:
            bucket.bytecode_from_string(self._code[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key] = bucket.bytecode_to_string()


def _once(compile_builder: Callable[..., Any]) -> Callable[..., Any]:
    """Builders of addresses by what they are made of; they find converters in the rule that they are bound to."""
    known: dict[Hashable, Any] = {}

    def builder(rule: Rule, append_unknown: bool = True) -> Any:
        if rule.defaults:
            return compile_builder(rule, append_unknown)
        key = (rule.rule, tuple(rule._trace), append_unknown)
        if key not in known:
            known[key] = compile_builder(rule, append_unknown)
        return known[key]

    return builder


def _share_statements(patch: pytest.MonkeyPatch) -> None:
    """One cache of statements for all SQLite databases: their dialects differ in nothing but their identity."""
    statements: LRUCache[Any, Any] = LRUCache(STATEMENTS)
    made = Engine.__init__

    def with_shared_cache(engine: Engine, *arguments: Any, **options: Any) -> None:
        made(engine, *arguments, **options)
        if isinstance(engine.dialect, SQLiteDialect_pysqlite):
            engine._compiled_cache = statements

    patch.setattr(Engine, "__init__", with_shared_cache)
    patch.setattr(SQLiteDialect_pysqlite, "__eq__", lambda one, other: _kind(one) == _kind(other))
    patch.setattr(SQLiteDialect_pysqlite, "__hash__", lambda dialect: hash(_kind(dialect)))


def _kind(dialect: Any) -> Hashable:
    names = ("_json_serializer", "_json_deserializer")
    return (type(dialect), *(getattr(dialect, name, None) for name in names))
