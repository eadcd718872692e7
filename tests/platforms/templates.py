"""Builds templates from answers. They contain only members that were read, and each value is replaced by its kind."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.platforms.traced import ABSENT
from upstreams.model.params import Param

_ISO_8601 = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_LANGUAGE = re.compile(r"[a-z]{2,3}([-_]\w{2,8})?")
_IDS = re.compile(r"(^|_)(id|ids|uid|guid|uuid|gid|pk|key|uri|urn|did|cid|hash|rev|sha|slug|token)$|(Id|Key|Uri|Hash)$")
_HANDLES = frozenset(
    ("handle", "username", "userName", "user_name", "login", "acct", "screen_name", "nick", "nickname")
)
_NAMES = frozenset(("name", "displayName", "display_name", "author", "full_name", "fullName", "artist", "owner"))
_TIMES = re.compile(
    r"(date|time|created|updated|published|_at|At|utc|timestamp|stamp|since|until|start|end)", re.IGNORECASE
)
_SPANS = re.compile(r"(duration|length|seconds|millis)", re.IGNORECASE)
_IMAGE = re.compile(r"\.(png|jpe?g|gif|webp|svg)(\?|$)", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z]+[^<>]*>")
_REFERENCE = re.compile(r"&#?\w+;")
_ADDRESSES = re.compile(r"(url|href|link|image|avatar|picture|website)", re.IGNORECASE)
_PARAGRAPH = 120
ALL = "$all"
"""Marks the template for all entries of a list."""
DEPTH_MAX = 2
"""How deep a list may contain a list with the same name, such as replies."""


@dataclass(frozen=True, slots=True)
class Known:
    """Values that are not replaced: texts in the platform's code, and the request's values, by their text."""

    literals: frozenset[str]
    request: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Same:
    """A value in an answer that was copied from the request."""

    name: str
    value: str | int

    @property
    def placeholder(self) -> str:
        return f"${{{self.name}:int}}" if isinstance(self.value, int) else f"${{{self.name}}}"


def literals_of(module: str) -> frozenset[str]:
    """Return the texts in a module's or package's code."""
    return frozenset(constants_of(module))


@cache
def constants_of(module: str) -> Counter[str]:
    """Return the texts in a module's or package's code, with how often each occurs."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    own = Path(spec.origin)
    files = own.parent.rglob("*.py") if own.name == "__init__.py" else [own]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    return Counter(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def choices_in(constants: Counter[str], params: Iterable[Param]) -> frozenset[str]:
    """Return the texts in a platform's code that are choices if an answer contains them.

    A text that occurs only as the example of a parameter is not a choice, because a recorded answer may contain it as
    the value of one record.
    """
    found = set(params)
    chosen = {choice for one in found for choice in one.choices}
    examples = Counter(example for _, example in {(one.name, one.example) for one in found})
    return frozenset(text for text, times in constants.items() if text in chosen or times > examples[text])


def with_request(body: Any, values: Mapping[str, str]) -> Any:
    """Return the body, with `Same` in place of each value that was copied from the request."""
    if isinstance(body, dict):
        return {name: with_request(inner, values) for name, inner in body.items()}
    if isinstance(body, list):
        return [with_request(inner, values) for inner in body]
    if isinstance(body, bool) or not isinstance(body, str | int) or len(str(body)) < 2:
        return body
    name = values.get(str(body))
    return body if name is None else Same(name, body)


def template_of(
    observed: list[Any], name: str, literals: frozenset[str], notes: list[str], above: tuple[str, ...] = ()
) -> Any:
    """Return one template for all the values that were found at a path. `notes` receives what it leaves out."""
    told = [one for one in observed if one is not None and one is not ABSENT]
    objects, lists = [one for one in told if isinstance(one, dict)], [one for one in told if isinstance(one, list)]
    kept = objects if objects and len(objects) >= len(lists) else lists
    if kept and len(kept) < len(told):
        path = ".".join((*above, name)).strip(".")
        notes.append(f"dropped: {len(told) - len(kept)} of {len(told)} values of `{path}`, which have another type")
    if kept is objects and objects:
        return dict(_members(objects, literals, notes, (*above, name)))
    if lists:
        entries = [entry for one in lists for entry in one if entry not in ({}, [])]
        if entries and above.count(name) >= DEPTH_MAX:
            notes.append(f"dropped: lists `{name}` that are more than {DEPTH_MAX} levels deep")
            entries = []
        template = [template_of(entries, name, literals, notes, above)] if entries else []
        is_single = len(above) == 1 and template and all(len(one) == 1 for one in lists)
        return [ALL, *template] if is_single else template
    return kind_of(name, told, literals) if told else None


def _members(
    objects: list[dict[str, Any]], literals: frozenset[str], notes: list[str], above: tuple[str, ...]
) -> Iterator[tuple[str, Any]]:
    names = list(dict.fromkeys(name for one in objects for name in one))
    if names and all(name.removeprefix("-").isdecimal() for name in names):  # a table whose keys are ids
        entries = [inner for one in objects for inner in one.values()]
        yield "$digits", template_of(entries, above[-1], literals, notes, above)
        return
    for name in names:
        seen = [one[name] for one in objects if name in one]
        found = [one for one in seen if one is not None and one is not ABSENT]
        if found or None in seen:
            is_optional = 0 < len(found) < len(seen)
            yield f"{name}?" if is_optional else name, template_of(found, name, literals, notes, above)


def kind_of(name: str, values: list[Any], literals: frozenset[str]) -> Any:
    """Return the placeholder for these values, or the value itself if it is a choice."""
    named = [one for one in values if isinstance(one, Same)]
    if len(named) * 2 > len(values) and len({one.name for one in named}) == 1:
        return named[0].placeholder
    plain = [one.value if isinstance(one, Same) else one for one in values]
    if all(isinstance(one, bool) for one in plain):
        return "$flag" if len(set(plain)) > 1 else plain[0]
    words = [one for one in plain if isinstance(one, str) and one]
    if words:
        return _of_words(name, words, literals)
    numbers = [one for one in plain if isinstance(one, int | float) and not isinstance(one, bool)]
    return _of_numbers(name, numbers) if numbers else _by_name(name, "a text")


def _of_numbers(name: str, numbers: list[int | float]) -> str:
    if _TIMES.search(name) and all(1e8 < one < 4e9 for one in numbers):
        return "$unix"
    if _TIMES.search(name) and all(1e11 < one < 4e12 for one in numbers):
        return "$unix_ms"
    if _IDS.search(name):
        return "$number"
    if _SPANS.search(name):
        return "$seconds"
    return "$decimal" if any(isinstance(one, float) and not one.is_integer() for one in numbers) else "$count"


def _of_words(name: str, words: list[str], literals: frozenset[str]) -> str:
    choices = [one for one in words if one in literals]
    if len(choices) * 2 > len(words):
        return choices[0]
    longest = max(words, key=len)
    if any(map(_TAG.search, words)):
        return "$html"
    if any(map(_REFERENCE.search, words)):
        return "$escaped"
    formed = (kind for kind, holds in _FORMS if sum(map(holds, words)) * 2 > len(words))
    return next(formed, "") or _by_name(name, longest)


def _by_name(name: str, longest: str) -> str:
    if "lang" in name.lower() and _LANGUAGE.fullmatch(longest):
        return "$language"
    if _ADDRESSES.search(name) and longest == "a text":
        return "$url"
    if name in _HANDLES:
        return "$handle"
    if name in _NAMES and len(longest) < 60:
        return "$name"
    if _IDS.search(name) and " " not in longest:
        return "$id"
    if " " not in longest:
        return "$word"
    return "$paragraph" if len(longest) > _PARAGRAPH else "$text"


def _is_instant(text: str) -> bool:
    try:
        return bool(_ISO_8601.match(text)) and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def _is_http_date(text: str) -> bool:
    try:
        return "," in text[:5] and bool(parsedate_to_datetime(text))
    except ValueError:
        return False


_FORMS = (
    ("$image", lambda text: text.startswith("http") and bool(_IMAGE.search(text))),
    ("$url", lambda text: re.match(r"https?://\S+$", text) is not None),
    ("$instant", _is_instant),
    ("$http_date", _is_http_date),
    ("$date", lambda text: re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None),
    ("$digits", lambda text: text.isascii() and text.isdecimal()),
    ("$price", lambda text: re.fullmatch(r"-?\d+\.\d+", text) is not None),
    ("$duration", lambda text: re.fullmatch(r"P(\d+\w)*T?(\d+(\.\d+)?\w)*", text) is not None),
    ("$clock", lambda text: re.fullmatch(r"\d+(:\d\d){1,2}", text) is not None),
)


def is_id(name: str) -> bool:
    """Return whether a member with this name contains an id."""
    return _IDS.search(name) is not None


def placeholders_in(template: Any) -> Iterable[str]:
    """Return all texts in a template."""
    if isinstance(template, dict):
        for name, inner in template.items():
            yield name
            yield from placeholders_in(inner)
    elif isinstance(template, list):
        for inner in template:
            yield from placeholders_in(inner)
    elif isinstance(template, str):
        yield template
