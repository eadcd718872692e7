"""The project's prose, by kind of text, as the tests of its wording read it."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.docs.source import PROJECT, modules, texts

KINDS = ("docs", "page", "docstring", "comment", "message", "test name", "test text")
"""A page is an HTML template; a test text is a docstring or comment of a test."""
_TEMPLATE_CODE = re.compile(r"{[{%#].*?[}%#]}|<style.*?</style>|<script.*?</script>|<[^>]*>", re.DOTALL)
_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma|!)")
_SQL = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|FROM)\b")


class Passage(NamedTuple):
    """One connected text, such as a docstring or a page."""

    kind: str
    path: str
    line: int
    text: str


@cache
def passages() -> tuple[Passage, ...]:
    """All prose of the project: its docs, templates, packages and tests."""
    return (*_docs(), *_pages(), *_programs(), *_tests())


def _docs() -> Iterator[Passage]:
    for file in (*PROJECT.glob("*.md"), *PROJECT.glob("docs/*.md"), PROJECT / "bench" / "README.md"):
        yield Passage("docs", _relative(file), 1, _without(re.compile(r"```.*?```", re.DOTALL), file.read_text()))
    for at, line in enumerate((PROJECT / "config.toml").read_text().splitlines(), start=1):
        if line.startswith("# "):
            yield Passage("docs", "config.toml", at, line)


def _pages() -> Iterator[Passage]:
    for file in sorted((PROJECT / "gateway").rglob("*.html")):
        yield Passage("page", _relative(file), 1, _without(_TEMPLATE_CODE, file.read_text()))


def _programs() -> Iterator[Passage]:
    for module in modules().values():
        docstrings = list(texts(module.tree))
        yield from (Passage("docstring", module.path, *one) for one in docstrings)
        yield from (Passage("message", module.path, *one) for one in _messages(module.tree, set(docstrings)))
        yield from (Passage("comment", module.path, *one) for one in _comments((PROJECT / module.path).read_text()))


def _tests() -> Iterator[Passage]:
    for file in sorted((PROJECT / "tests").rglob("*.py")):
        path, source = _relative(file), file.read_text()
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield Passage("test name", path, node.lineno, node.name.removeprefix("test_").replace("_", " "))
        yield from (Passage("test text", path, *one) for one in (*texts(tree), *_comments(source)))


def _messages(tree: ast.Module, docstrings: set[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Texts of at least three words that are neither documentation nor SQL."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node.value.count(" ") < 2:
            continue
        if (node.lineno, node.value) not in docstrings and not _SQL.search(node.value):
            yield node.lineno, node.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            yield token.start[0], token.string.lstrip("# ")


def _without(code: re.Pattern[str], text: str) -> str:
    """Remove code from a text. Line breaks are kept, so that line numbers stay the same."""
    return code.sub(lambda found: " " + "\n" * found[0].count("\n"), text)


def _relative(file: Path) -> str:
    return str(file.relative_to(PROJECT))
