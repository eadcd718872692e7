"""The kinds of fields that answers share, each with its meaning and an example."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

_AT: Final = {"format": "date-time"}

MonitorId = Annotated[str, Meta(description="The monitor.", examples=["mon_01a1fd6f28fd7bba92988ba98f5dc154"])]
RunId = Annotated[str, Meta(description="The run.", examples=["run_01a1fd7028fd7bba92988ba98f5dc154"])]
Instant = Annotated[str, Meta(examples=["2026-01-31T12:00:00.000Z"], extra_json_schema=_AT)]
Cursor = Annotated[str, Meta(description="A position.", examples=["cur_AQAAAAAAAAAB"])]
Credits = Annotated[int, Meta(description="Credits.", examples=[1])]
Json = Annotated[dict[str, Any], Meta(description="An object.")]


def shown(*examples: object) -> Meta:
    """An example of a field whose name says all, where the first of its values would contradict those around it."""
    return Meta(examples=list(examples))


def meaning(description: str, *examples: object) -> Meta:
    """The meaning of a field, with an example where its kind alone has none."""
    return Meta(description=description, examples=list(examples)) if examples else Meta(description=description)
