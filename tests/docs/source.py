"""The program's own source, parsed: its modules, the names that they define, and their imports."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGES = ("gateway", "scheduler", "events", "billing", "upstreams", "limits", "storage", "client", "bench")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """One module: its dotted name, its path in the project, and its syntax tree."""

    name: str
    path: str
    tree: ast.Module
    lines: int

    @property
    def is_package(self) -> bool:
        """Whether the module is the `__init__` of a package."""
        return self.path.endswith("/__init__.py")


@cache
def modules() -> dict[str, Module]:
    """Return every module of the program by dotted name."""
    files = (file for package in PACKAGES for file in sorted((PROJECT / package).rglob("*.py")))
    return {module.name: module for module in map(_parsed, files)}


def _parsed(file: Path) -> Module:
    path, text = file.relative_to(PROJECT), file.read_text()
    parts = path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts
    return Module(".".join(parts), str(path), ast.parse(text), text.count("\n"))


@cache
def imports_of(name: str) -> frozenset[str]:
    """Return the program's modules that a module imports, anywhere in its text."""
    found = set()
    for node in ast.walk(modules()[name].tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found & modules().keys())


@cache
def importers() -> dict[str, list[str]]:
    """Return the importers of each module. A package counts as imported only if its own names are imported."""
    found: dict[str, list[str]] = {name: [] for name in modules()}
    for name in modules():
        for imported in sorted(imports_of(name)):
            found[imported].append(name)
    return found


def split(dotted: str) -> tuple[str, list[str]] | None:
    """Split a dotted name into its module and the names after it; None if the module does not exist."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        if (module := ".".join(parts[:end])) in modules():
            return module, parts[end:]
    return None


def definition(dotted: str) -> ast.AST | None:
    """Find the module, class, function, attribute or constant of a dotted name; None if it does not exist."""
    found = split(dotted)
    if found is None:
        return None
    module, names = found
    node: ast.AST | None = modules()[module].tree
    for name in names:
        node = _named(node, name)
    return node


def _named(owner: ast.AST | None, name: str) -> ast.AST | None:
    for node in getattr(owner, "body", ()):
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return node
        targets: Sequence[ast.expr] = node.targets if isinstance(node, ast.Assign) else ()
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node
    return None


def names_in(node: ast.AST) -> set[str]:
    """Return the names and attributes that are used in a piece of code."""
    found = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return found | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def functions(tree: ast.Module) -> Iterator[Function]:
    """Yield every function and method, including nested ones."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every docstring with its line: of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
