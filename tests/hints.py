"""Hints about the structure: `python -m tests.hints`. They are not rules, because sense decides where a module ends.

Each line names a place that is worth a look: a long module or function, a crowded folder, or a small module that may
belong in its only importer.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from tests.docs.source import Function, Module, functions, importers, modules

LINES: Final = 450
BODY_LINES: Final = 50
MODULES: Final = 14
SMALL_LINES: Final = 75
ALIKE: Final = "upstreams/platforms"
"""A folder whose packages all have the same small files."""


def hints() -> Iterator[str]:
    """Yield a line for each hint."""
    every = list(modules().values())
    yield from (f"{one.path}: {one.lines} lines" for one in every if one.lines > LINES)
    folders = Counter(str(PurePath(one.path).parent) for one in every if not one.is_package)
    yield from (
        f"{folder}: {count} modules" for folder, count in folders.items() if count > MODULES and folder != ALIKE
    )
    for one in every:
        for function in functions(one.tree):
            if (lines := body_lines(function)) > BODY_LINES:
                yield f"{one.path}:{function.lineno}: {function.name} has {lines} lines"
        if is_small(one) and len(users := importers()[one.name]) == 1:
            yield f"{one.path}: {one.lines} lines, used only by {next(iter(users))}"


def body_lines(function: Function) -> int:
    """Return the number of lines after the signature and the docstring."""
    first = function.body[1:2] if ast.get_docstring(function, clean=False) is not None else function.body[:1]
    return (function.end_lineno or 0) - first[0].lineno + 1 if first else 0


def is_small(module: Module) -> bool:
    """Return whether a module is small enough to belong in its only importer."""
    return module.lines < SMALL_LINES and not module.is_package and not module.path.startswith(ALIKE)


if __name__ == "__main__":
    print(*sorted(hints()), sep="\n")
