"""Field types that several responses share, each with its description and an example."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

_AT: Final = {"format": "date-time"}

MonitorId = Annotated[str, Meta(description="The monitor.", examples=["mon_01a1fd6f28fd7bba92988ba98f5dc154"])]
RunId = Annotated[str, Meta(description="The run.", examples=["run_01a1fd7028fd7bba92988ba98f5dc154"])]
Instant = Annotated[str, Meta(examples=["2026-01-31T12:00:00.000Z"], extra_json_schema=_AT)]
Cursor = Annotated[str, Meta(description="A position in the feed.", examples=["cur_AQAAAAAAAAAB"])]
Credits = Annotated[int, Meta(description="A number of credits.", examples=[1])]
Json = Annotated[dict[str, Any], Meta(description="A JSON object.")]


def shown(*examples: object) -> Meta:
    """Give examples for a self-explanatory field whose default example would contradict the other fields."""
    return Meta(examples=list(examples))


def meaning(description: str, *examples: object) -> Meta:
    """Describe a field, with examples if its type has no default example."""
    return Meta(description=description, examples=list(examples)) if examples else Meta(description=description)
