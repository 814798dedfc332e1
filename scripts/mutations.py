"""Small changes of a program's meaning: another comparison, another sign, a call left out."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.And: ast.Or, ast.Or: ast.And, ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A change of a source text: its line, both versions of the changed part, and which node of the tree it is."""

    line: int
    before: str
    after: str
    original: str
    node: int

    @property
    def source(self) -> str:
        """The changed text, in the form that Python gives it."""
        tree = ast.parse(self.original)
        target = next(islice(ast.walk(tree), self.node, None))
        changed = _changed(target)
        assert changed is not None
        return ast.unparse(ast.fix_missing_locations(_Replace(target, changed).visit(tree)))

    def __str__(self) -> str:
        return f"{_short(self.before)}  ->  {_short(self.after)}"


def _short(text: str) -> str:
    first, *more = text.splitlines()
    return first[:100] + (" …" if more or len(first) > 100 else "")


def mutants(source: str) -> Iterator[Mutant]:
    """Make every mutant of a module, in the order of its syntax tree."""
    tree = ast.parse(source)
    skipped = _without_meaning(tree)
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        changed = _changed(node)
        if changed is not None:
            yield Mutant(getattr(node, "lineno", 0), ast.unparse(node), ast.unparse(changed), source, number)


def _without_meaning(tree: ast.Module) -> set[int]:
    """Annotations, docstrings, what is only logged or shown to programmers, and whatever is in them."""
    idle: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg):
            idle.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            idle.append(node.returns)
        elif isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr) or _is_idle(node):
            idle.append(node)
    return {id(part) for node in idle if node is not None for part in ast.walk(node)}


def _is_idle(node: ast.AST) -> bool:
    return _is_docstring(node) or _is_for_programmers(node) or _is_only_logged(node)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_programmers(node: ast.AST) -> bool:
    """`frozen=` keeps them from mistakes, `repr=` from long lines."""
    return isinstance(node, ast.keyword) and node.arg in ("frozen", "repr")


def _is_only_logged(node: ast.AST) -> bool:
    """`logger.info(...)` and `logger.debug(...)`; warnings and errors are there for somebody to act on."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="logger"), attr="info" | "debug"))):
            return True
    return False


def _changed(node: ast.AST) -> ast.AST | None:
    """The one change that is made to this kind of node; None where there is none."""
    match node:
        case ast.Compare(ops=[first, *_]) if type(first) in SWAPS:
            return _with(node, ops=[SWAPS[type(first)](), *node.ops[1:]])
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in SWAPS:
            return _with(node, op=SWAPS[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            return node.operand
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            return ast.Constant(value + 1)
        case ast.If() | ast.IfExp() | ast.While():
            return _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=value) if value is not None and not _is_nothing(value):
            return ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Raise():
            return ast.Pass()
        case ast.Break() | ast.Continue():
            return SWAPS[type(node)]()
    return None


def _with(node: ast.AST, **changes: object) -> ast.AST:
    """A copy with some fields changed; what it holds otherwise is shared."""
    fields = {name: getattr(node, name) for name in node._fields}
    return ast.copy_location(type(node)(**{**fields, **changes}), node)


def _is_nothing(node: ast.expr) -> bool:
    """None, or False, which callers cannot tell from it; that it could be True is a change of its own."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


class _Replace(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self._target, self._replacement = target, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the target; go on elsewhere."""
        if node is self._target:
            return copy.deepcopy(self._replacement)
        return self.generic_visit(node)
