"""docs/platform-reference.md: the arguments of everything that a platform's declaration uses, from the code itself.

Descriptions are docstrings, also those after the fields of a class, and the texts in a constructor's annotations.
`sluice platforms tables` writes the page.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from operator import attrgetter
from types import MappingProxyType, ModuleType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from upstreams.model.archetypes import ARCHETYPES
from upstreams.model.archetypes.shape import Format, Make, Of

INTRODUCTION: Final = """# Reference for platforms

This page lists the arguments of everything that a declaration uses. `sluice platforms tables` generates it from the
code, so do not edit it.
[Adding a platform](platforms.md) explains how to use these parts together.
"""


SECTIONS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "Platforms and endpoints": ("upstreams.model.endpoint: Platform Endpoint Fallback PriceRange fixed",),
        "Calls, and endpoints made from calls": (
            "upstreams.model.calls: Get Get.via Get.at Post PostForm made Secret single listing listing_by",
            "upstreams.model.paging.shape: Pages Pages.page",
        ),
        "Parameters": (
            "upstreams.model.params: Param Host Address AddressForm forms_at_host at_host",
            "upstreams.model.paths: Located Within",
        ),
        "Field maps": (
            "upstreams.model.fields.maps: record_map RecordMap.at RecordMap.here RecordMap.inside"
            " RecordMap.with_fields",
        ),
        "Readers": ("upstreams.model.fields.readers: *",),
        "Functions for `of`": (
            "upstreams.model.fields: any_true joined",
            "upstreams.model.fields.values: fraction",
            "upstreams.content.amounts: short_count duration json_text",
        ),
        "Values from HTML pages": ("upstreams.content.selection: *",),
        "Paging objects": ("upstreams.model.paging: Paging ByPage ByOffset ByToken ByLink ByLastId ByTime Whole Once",),
        "Refusals, quotas, pace": (
            "upstreams.model.refusals: Refusals Remaining Pace",
            "upstreams.model.budgets: Budget",
        ),
        "Signing in": ("upstreams.model.sign_in: *", "upstreams.model.steps: Session"),
        "Answers and results in hand-written reads": (
            "upstreams.model.params: Args Args.text Args.text_or_none Args.number",
            "upstreams.model.steps: Call Answer Answer.number Missing Single Page Many",
        ),
    }
)
"""The sections before the records, with the names that each describes. `*` stands for all public functions."""
_REFERENCE_TO_SPEC = re.compile(r"\s*\((?:spec|decisions)\b[^()]*\)")


def reference_page() -> str:
    """Return the page.

    Raises:
        ValueError: A name has no docstring.
    """
    return "\n".join((INTRODUCTION, *(line for title in SECTIONS for line in _section(title)), *_records()))


def _section(title: str) -> Iterator[str]:
    """Yield the lines of a section: for each module, a table of arguments for each class, and one of all functions."""
    yield from (f"## {title}", "")
    listed: set[ArgumentRow] = set()
    for described in SECTIONS[title]:
        module, _, names = described.partition(": ")
        rows = []
        for name, one in _described(import_module(module), names.split()):
            arguments = _fields_of(one) if inspect.isclass(one) else []
            if arguments:
                new = [row for row in arguments if row not in listed]
                yield from (f"### {name}", "", f"`{module}.{name}`: {_plain(one, name)}", "", *_table(new), "")
                listed.update(arguments if name == "Paging" else ())
            else:
                rows.append(f"| `{_signature(name, one)}` | {_cell(_plain(one, name))} |")
        if rows:
            yield from (f"From `{module}`:", "", "| name and arguments | description |", "|---|---|", *rows, "")


def _described(module: ModuleType, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the named classes, functions and methods of a module, or all of its own public functions."""
    if names == ["*"]:
        own = [one for one in vars(module).values() if inspect.isfunction(one) and one.__module__ == module.__name__]
        names = [one.__name__ for one in own if not one.__name__.startswith("_")]
    for name in names:
        yield name, attrgetter(name)(module)


def _plain(described: Any, name: str) -> str:
    """Return a docstring as one paragraph, without references to the specification.

    Raises:
        ValueError: There is no docstring.
    """
    if not described.__doc__ or (inspect.isclass(described) and described.__doc__.startswith(f"{name}(")):
        raise ValueError(f"`{name}` has no docstring")
    return _REFERENCE_TO_SPEC.sub("", " ".join(inspect.cleandoc(described.__doc__).split()))


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _signature(name: str, described: Any) -> str:
    """Return the call of a function, class or method, with its defaults."""
    signature = inspect.signature(described)
    parameters = [
        one.replace(
            annotation=one.empty, default=_Named(one.default) if inspect.isfunction(one.default) else one.default
        )
        for one in signature.parameters.values()
        if one.name != "self"
    ]
    return f"{name}{signature.replace(parameters=parameters, return_annotation=signature.empty)}"


class _Named:
    """A function as a default value, shown by its name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = function.__name__

    def __repr__(self) -> str:
        return self._name


class ArgumentRow(NamedTuple):
    """One row of a table of arguments."""

    name: str
    type: str
    default: str
    description: str


def _table(rows: Sequence[ArgumentRow]) -> Iterator[str]:
    yield "| argument | type | default | description |"
    yield "|---|---|---|---|"
    for one in rows:
        yield f"| `{one.name}` | {_cell(one.type)} | {_cell(one.default)} | {_cell(one.description)} |"


def _fields_of(described: type) -> list[ArgumentRow]:
    """Return the arguments of a dataclass or named tuple; none for another class."""
    documented = {name: text for one in reversed(described.__mro__) for name, text in _attribute_texts(one).items()}
    if is_dataclass(described):
        defaults = {
            one.name: "" if one.default is MISSING and one.default_factory is MISSING else _default(one.default)
            for one in fields(described)
            if one.init
        }
    else:
        named: Mapping[str, Any] = getattr(described, "_field_defaults", {})
        names: Sequence[str] = getattr(described, "_fields", ())
        defaults = {name: _default(named[name]) if name in named else "" for name in names}
    hints = {name: hint for one in reversed(described.__mro__) for name, hint in inspect.get_annotations(one).items()}
    return [
        ArgumentRow(
            name, _type(getattr(hints[name], "__forward_arg__", hints[name])), default, documented.get(name, "")
        )
        for name, default in defaults.items()
    ]


def _default(value: Any) -> str:
    """Return a default value as code. The default of a field with a factory is an empty collection."""
    if value is MISSING:
        return "empty"
    return "a function" if callable(value) else f"`{value if value != '' else chr(34) * 2}`"


def _type(annotation: str) -> str:
    """Return a type as text: `str | None` is "str or None"."""
    literal = re.fullmatch(r"Literal\[(.*)\]", annotation)
    return literal[1].replace('"', "`") if literal else annotation.replace(" | ", " or ")


def _attribute_texts(described: type) -> dict[str, str]:
    """Return the texts after the attributes in the source of a class."""
    if described.__module__ == "builtins":
        return {}
    (node,) = ast.parse(inspect.getsource(described)).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for one, following in zip(node.body, node.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and isinstance(following, ast.Expr):
            text = following.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[one.target.id] = _REFERENCE_TO_SPEC.sub("", " ".join(text.value.split()))
    return found


def _records() -> Iterator[str]:
    """Yield the section about constructors: the arguments of every record that a platform can return."""
    yield "## Records"
    yield ""
    yield "A field map sets these arguments: `record_map(post, id=..., url=...)`. The default is None"
    yield "if the table names no other one."
    users: dict[Make, list[str]] = {}
    for archetype in ARCHETYPES.values():
        if not archetype.has_legs:
            users.setdefault(archetype.make, []).append(archetype.name)
    makes = list(users)
    for make in makes:
        hints = get_type_hints(make, include_extras=True)
        makes += [one for hint in hints.values() if (one := _nested(hint)) is not None and one not in makes]
        named = ", ".join(f"`{name}`" for name in users.get(make, ()))
        yield ""
        yield f"### {make.__name__}"
        yield ""
        shapes = f" Shapes: {named}." if named else ""
        yield f"`{make.__module__}.{make.__name__}`: {_plain(make, make.__name__)}{shapes}"
        yield ""
        yield from ("| argument | type | description |", "|---|---|---|")
        yield from _arguments(make, hints)
    yield ""


def _arguments(make: Callable[..., Any], hints: Mapping[str, Any]) -> Iterator[str]:
    """Yield a row for each argument of a constructor."""
    for name, parameter in inspect.signature(make).parameters.items():
        default = "" if parameter.default is None else f", default `{parameter.default}`"
        note = ", required" if parameter.default is parameter.empty else default
        text = next(one for one in get_args(hints[name])[1:] if isinstance(one, str))
        yield f"| `{name}` | {_value(hints[name])}{note} | {_cell(text)} |"


def _nested(hint: Any) -> Make | None:
    return next((one.make for one in get_args(hint) if isinstance(one, Of)), None)


def _value(hint: Any) -> str:
    """Return the type of a constructor's argument: a plain type, a format such as a URL, or a nested record."""
    plain, *annotations = get_args(hint)
    make, format_ = _nested(hint), next((one.name for one in annotations if isinstance(one, Format)), "")
    is_list = any(get_origin(one) is list or one is list for one in (plain, *get_args(plain)))
    if make is not None:
        return f"list of `{make.__name__}`" if is_list else f"`{make.__name__}`"
    if format_:
        return {"uri": "URL", "date-time": "time"}.get(format_, format_)
    types = [one for one in get_args(plain) or (plain,) if one is not type(None)]
    return " or ".join(
        "dict" if get_origin(one) is dict else str(one) if get_args(one) else one.__name__ for one in types
    )
