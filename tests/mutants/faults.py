"""The small faults that are put into a module, one at a time: a flipped comparison, another number, a missing call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_OPPOSITE: Final = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "is": "is not",
    "is not": "is",
    "in": "not in",
    "not in": "in",
    "and": "or",
    "or": "and",
    "+": "-",
    "-": "+",
    "*": "//",
    "//": "*",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of one place in a module: the line and columns of the old text, and the new text."""

    path: str
    line: int
    begin: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """Return the source with the fault."""
        lines = source.splitlines(keepends=True)
        raw = lines[self.line - 1].encode()
        lines[self.line - 1] = (raw[: self.begin] + self.text.encode() + raw[self.end :]).decode()
        return "".join(lines)

    def shown(self, source: str) -> str:
        """Return the place, the line before and the line after, as one line of text."""
        before, after = (text.splitlines()[self.line - 1].strip() for text in (source, self.applied(source)))
        return f"{self.path}:{self.line}: `{before}` became `{after}`"


def faults_of(root: Path, path: str) -> list[Fault]:
    """Return all faults that can be put into a module, in the order of their places."""
    source = (root / path).read_text()
    tree = ast.parse(source)
    hints = {id(inner) for node in ast.walk(tree) for hint in _hints(node) for inner in ast.walk(hint)}
    found = [
        Fault(path, line, begin, end, text)
        for node in ast.walk(tree)
        if id(node) not in hints
        for line, begin, end, text in _changes(node, source)
    ]
    return sorted(found, key=lambda fault: (fault.line, fault.begin, fault.text))


def _hints(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the annotations, decorators and class arguments of a node: changing them rarely has an effect."""
    yield from getattr(node, "decorator_list", ())
    if isinstance(node, ast.ClassDef):
        yield from node.keywords
    for name in ("annotation", "returns"):
        hint = getattr(node, name, None)
        if hint is not None:
            yield hint


def _changes(node: ast.AST, source: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield the changes of a node within one line: the line, its columns, and the new text."""
    match node:
        case ast.Compare(left=left, comparators=[right]) | ast.BinOp(left=left, right=right):
            yield from _between(left, right, source)
        case ast.BoolOp(values=[left, right, *_]):
            yield from _between(left, right, source)
        case ast.UnaryOp(op=ast.Not()):
            yield node.lineno, node.col_offset, node.col_offset + len("not "), ""
        case ast.Constant(value=bool(value)):
            yield from _replaced(node, str(not value))
        case ast.Constant(value=int(value)):
            yield from _replaced(node, str(value + 1))
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield from _replaced(node, "pass")


def _replaced(node: ast.expr | ast.stmt, text: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield the replacement of a whole node, if it fits in one line."""
    if node.lineno == node.end_lineno and node.end_col_offset is not None:
        yield node.lineno, node.col_offset, node.end_col_offset, text


def _between(left: ast.expr, right: ast.expr, source: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield the opposite of the operator between two operands, if all are in one line, without parentheses."""
    if left.end_lineno == right.lineno and left.end_col_offset is not None:
        begin, end = left.end_col_offset, right.col_offset
        operator = source.splitlines()[right.lineno - 1].encode()[begin:end].decode()
        if (opposite := _OPPOSITE.get(operator.strip())) is not None:
            yield right.lineno, begin, end, f" {opposite} "
