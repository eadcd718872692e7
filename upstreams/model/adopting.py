"""Puts the functions of a loaded platform in the place of its placeholders (`upstreams.model.loading`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from upstreams.model.endpoint import Platform
from upstreams.model.loading import Later


def adopt_functions(mine: Platform, loaded: Platform) -> None:
    """Replace the placeholders in a platform and its endpoints by the functions of the loaded platform.

    Only this function changes these objects, which are frozen for everyone else. Both platforms have the same data.
    """
    _adopt(mine, loaded)
    of_resource = {one.resource: one for one in loaded.endpoints}
    for endpoint in mine.endpoints:
        _adopt(endpoint, of_resource[endpoint.resource])
        object.__setattr__(endpoint, "record", of_resource[endpoint.resource].record)


def _adopt(mine: Any, loaded: Any) -> None:
    for one in fields(mine):
        if one.name not in ("endpoints", "_endpoint_of_role") and has_later(getattr(mine, one.name)):
            object.__setattr__(mine, one.name, getattr(loaded, one.name))


def has_later(value: Any) -> bool:
    """Return whether a value of a declaration contains a placeholder."""
    if isinstance(value, tuple):
        return any(map(has_later, value))
    if isinstance(value, Mapping):
        return any(map(has_later, value.values()))
    if is_dataclass(value):
        return any(has_later(getattr(value, one.name)) for one in fields(value))
    return isinstance(value, Later)
