"""docs/architecture.md lists every folder; the diagrams of docs/how-it-works.md show real calls in their order."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import pytest

from tests.docs.source import PROJECT, Function, definition, imports_of, modules, names_in, split

PAGE = "\n".join((PROJECT / "docs" / name).read_text() for name in ("architecture.md", "how-it-works.md"))
ROOMS = re.findall(r"^\| (?:\d|beside) \| `([^`]+)` \|", PAGE, re.M)
_LINE = re.compile(r"(?P<indent> *)(?P<names>\S+) +(?P<module>\S+)(?: +by (?P<by>\w+))?(?: .*)?")


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of a diagram: its indentation, its name, and the name that its caller uses."""

    caller: str | None
    name: str
    by: str | None

    def __str__(self) -> str:
        return f"{self.caller} -> {self.name}"


def pictures() -> Iterator[list[Shown]]:
    for text in re.findall(r"^```way\n(.*?)^```", PAGE, re.M | re.S):
        above: list[tuple[int, str]] = []
        shown = []
        for line in filter(None, text.splitlines()):
            match = _LINE.fullmatch(line)
            assert match is not None, line
            depth, name = len(match["indent"]), f"{match['module']}.{match['names']}"
            above = [(at, other) for at, other in above if at < depth]
            shown.append(Shown(above[-1][1] if above else None, name, match["by"]))
            above.append((depth, name))
        yield shown


PICTURES = list(pictures())
LINES = [line for picture in PICTURES for line in picture]
ARROWS = [line for line in LINES if line.caller is not None]
of_each_arrow = pytest.mark.parametrize("arrow", ARROWS, ids=str)


def module_of(dotted: str) -> str:
    found = split(dotted)
    assert found is not None, f"{dotted} is not in any module"
    return found[0]


def functions_of(module: str) -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = {}
    for node in ast.walk(modules()[module].tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


@dataclass(frozen=True, slots=True)
class Named:
    """A name in a caller's code, and whether it is an attribute (`value.name`)."""

    name: str
    is_attribute: bool


@cache
def walk_through(caller: str) -> list[Named]:
    """Return the names in a caller's code in order of use, including names in local functions of its module."""
    start = definition(caller)
    assert start is not None, f"{caller} does not exist"
    return list(_names_of(start, functions_of(module_of(caller)), frozenset({caller.rpartition(".")[2]})))


def _names_of(node: ast.AST, own: dict[str, list[Function]], within: frozenset[str]) -> Iterator[Named]:
    """Walk the tree depth first. The arguments of a call come before the call."""
    parts = [*node.args, *node.keywords, node.func] if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    for part in parts:
        yield from _names_of(part, own, within)
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
    if name is None:
        return
    yield Named(name, isinstance(node, ast.Attribute))
    if name in own and name not in within:
        for function in own[name]:
            yield from _names_of(function, own, within | {name})


def test_listed_folders_are_the_package_folders() -> None:
    folders = {name.replace(".", "/") for name, module in modules().items() if module.is_package}
    a_platforms = {folder for folder in folders if folder.startswith(("upstreams/platforms/", "upstreams/sandbox/"))}
    assert sorted(ROOMS) == sorted(folders - a_platforms - {"gateway"})


def test_page_has_three_diagrams() -> None:
    assert len(PICTURES) == 3


def test_every_diagram_line_names_existing_code() -> None:
    assert [line.name for line in LINES if definition(line.name) is None] == []


def test_paths_and_methods_in_backticks_exist() -> None:
    """Method: each path must be a file or folder, and `Class.method` must belong to a class in one of the diagrams."""
    shown = {line.name for line in LINES}
    classes = {name.rpartition(".")[0] for name in shown}
    wrong = []
    for name in re.findall(r"`([^`\n]+)`", PAGE):
        if re.fullmatch(r"[a-z_]+(/[\w.]+)+", name):
            is_there = (PROJECT / name).exists()
        elif re.fullmatch(r"[A-Z]\w+\.\w+", name):
            owner, _, method = name.partition(".")
            is_there = any(definition(f"{one}.{method}") for one in classes if one.endswith(f".{owner}"))
        else:
            continue
        if not is_there:
            wrong.append(name)
    assert wrong == []


@of_each_arrow
def test_callers_import_what_they_call(arrow: Shown) -> None:
    assert arrow.caller is not None
    caller, callee = module_of(arrow.caller), module_of(arrow.name)
    if arrow.by is None:
        fronts = {front for front in imports_of(caller) if modules()[front].is_package}
        assert caller == callee or callee in imports_of(caller).union(*map(imports_of, fronts))
    else:
        assert plain(arrow.by) in set(map(plain, names_in(modules()[caller].tree)))


@of_each_arrow
def test_callers_call_what_the_diagram_says(arrow: Shown) -> None:
    assert arrow.caller is not None
    last = arrow.name.rpartition(".")[2]
    assert {plain(last), plain(arrow.by or last)} & {plain(named.name) for named in walk_through(arrow.caller)}


def plain(name: str) -> str:
    """Return the forms of a name as type and attribute: `BeginRead` is stored as `_begin_read`."""
    return name.replace("_", "").lower()


def test_calls_of_a_caller_are_in_order() -> None:
    """Goal: the order is real. Method: the second of two adjacent lines is used after the first at least once."""
    wrong = []
    for picture in PICTURES:
        for caller in {line.caller for line in picture if line.caller is not None}:
            below = [line for line in picture if line.caller == caller]
            called = [(places, line) for line in below if (places := places_of(line, walk_through(caller)))]
            wrong += [f"{one}, then {two}" for (ones, one), (twos, two) in pairwise(called) if ones[0] > twos[-1]]
    assert wrong == []


def places_of(line: Shown, walked: list[Named]) -> list[int]:
    owner, _, last = line.name.rpartition(".")
    is_attribute = line.by is not None or split(owner) != (owner, [])
    return [
        place
        for place, named in enumerate(walked)
        if named.name in (last, line.by) and (named.is_attribute or not is_attribute)
    ]
