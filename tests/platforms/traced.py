"""JSON values that record which of their members were read. The generator of stand-ins keeps only those members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class TracedDict(dict):
    """A traced object. Its `__class__` equals `dict`."""

    __class__ = property(lambda self: dict)

    def __init__(self, plain: dict[str, Any]) -> None:
        super().__init__({name: traced(value) for name, value in plain.items()})
        self.read: dict[str, None] = {}

    def get(self, name: str, default: Any = None) -> Any:
        self.read[name] = None
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.read[name] = None
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.read[str(name)] = None
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self.read.update(dict.fromkeys(super().keys()))
        return super().__iter__()

    def keys(self) -> Any:
        self.read.update(dict.fromkeys(super().keys()))
        return super().keys()

    def items(self) -> Any:
        self.read.update(dict.fromkeys(super().keys()))
        return super().items()

    def values(self) -> Any:
        self.read.update(dict.fromkeys(super().keys()))
        return super().values()


class TracedList(list):
    """A traced list. An entry counts as read when it is accessed."""

    __class__ = property(lambda self: list)

    def __init__(self, plain: list[Any]) -> None:
        super().__init__(traced(value) for value in plain)


def traced(value: Any) -> Any:
    """Return a JSON value that records which parts of it are read."""
    if isinstance(value, dict):
        return TracedDict(value)
    return TracedList(value) if isinstance(value, list) else value


def sought(value: Any, path: str = "") -> Iterator[str]:
    """Return the paths of members that a reader looked for but did not find."""
    if type(value) is TracedDict:
        for name in value.read:
            own = f"{path}.{name}" if path else name
            yield from sought(dict.__getitem__(value, name), own) if dict.__contains__(value, name) else (own,)
    elif type(value) is TracedList:
        for entry in list.__iter__(value):
            yield from sought(entry, f"{path}[]")


def unread(value: Any, path: str = "") -> Iterator[str]:
    """Return the paths of members that no reader looked at. Members inside them are not listed."""
    if type(value) is TracedDict:
        for name, inner in dict.items(value):
            own = f"{path}.{name}" if path else name
            yield from unread(inner, own) if name in value.read else (own,)
    elif type(value) is TracedList:
        for entry in list.__iter__(value):
            yield from unread(entry, f"{path}[]")


class Absent:
    """A placeholder for a member that a reader looked for but did not find."""


ABSENT = Absent()


def was_read(value: Any) -> Any:
    """Return the parts of a traced value that were read, as plain JSON. Missing members are `ABSENT`."""
    if type(value) is TracedDict:
        return {name: was_read(dict.get(value, name, ABSENT)) for name in value.read}
    return [was_read(entry) for entry in list.__iter__(value)] if type(value) is TracedList else value
