"""A platform with one endpoint for each record type of platforms, with a value in every field."""

from __future__ import annotations

from functools import partial
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from tests.fakes.platform_fields import FIELDS
from upstreams.model.archetypes import ARCHETYPES, Archetype
from upstreams.model.archetypes.shape import Format, Make, Of, Record
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Args
from upstreams.model.steps import Call, Page, Single, Steps

PLAIN: dict[type, Any] = {str: "some words", int: 3, float: 2, bool: False, dict: {"more": 1}}
OF_FORMAT = {"uri": "https://records.example.org/1", "date-time": "2026-03-04T05:06:07Z"}


def whole(make: Make, depth: int = 0) -> Record:
    """Return a record with a value in every field. Records inside themselves are repeated once."""
    hints = get_type_hints(make, include_extras=True)
    return make(**{name: _value(hint, depth) for name, hint in hints.items() if name != "return"})


def _value(hint: Any, depth: int) -> Any:
    plain, *annotations = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    types = get_args(plain) if get_origin(plain) is UnionType else (plain,)
    made = next((one.make for one in annotations if isinstance(one, Of)), None)
    named = next((one.name for one in annotations if isinstance(one, Format)), "")
    kind = next(one for one in types if one is not type(None))
    if get_origin(kind) is list:
        if made is not None:
            return [whole(made, depth + 1)] if depth < 2 else []
        return [PLAIN[get_args(kind)[0]]]
    if made is not None:
        return whole(made, depth + 1)
    return OF_FORMAT.get(named) or PLAIN[get_origin(kind) or kind]


def _read(archetype: Archetype, _args: Args) -> Steps:
    yield Call("/record")
    record = whole(archetype.make)
    return Page([record], total=1) if archetype.many else Single(record)


def resource_of(archetype: Archetype) -> str:
    """Return the resource of the endpoint that serves an archetype."""
    return archetype.name.lower()


SERVED = tuple(one for one in ARCHETYPES.values() if not one.has_legs)
EVERY_RECORD = Platform(
    slug="museum",
    title="Museum",
    sources={"api": "https://museum.example.org"},
    **FIELDS,
    endpoints=tuple(
        Endpoint(
            resource=resource_of(one),
            summary=f"Returns {one.name}.",
            archetype=one,
            read=partial(_read, one),
        )
        for one in SERVED
    ),
)
