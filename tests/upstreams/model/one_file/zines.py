"""Zines: a family of archetypes, as an author would add it."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.people import byline
from upstreams.model.archetypes.shape import Archetype, Contract, Of, Record, Url, nests


def contribution(
    *,
    name: Annotated[str | None, "Name of the contributor."],
    pages: Annotated[int | None, "Number of pages by this contributor."] = None,
) -> Record:
    """A contribution to a zine."""
    return locals()


@nests(price="The price of a printed copy.")
def zine(
    *,
    id: Annotated[str | None, "The zine's ID."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the zine."],
    editor: Annotated[Record | None, Of(byline), "The editor's account."] = None,
    price: Annotated[float | None, "The price, in whole units of the currency."] = None,
    currency: Annotated[str | None, "ISO 4217 code of the currency."] = None,
    copies: Annotated[int | None, "Number of printed copies."] = None,
    contributions: Annotated[list[Record] | None, Of(contribution), "The contributions."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A small magazine."""
    return {
        "id": id,
        "url": url,
        "editor": editor,
        "price": {"amount": price, "currency": currency},
        "copies": copies,
        "contributions": contributions or [],
        "ext": ext or {},
    }


ZINE = Archetype("Zine", "zine", zine, kind="profile", lookup_rank=11, roles=(Contract("zine"),))
ZINE_LIST = Archetype(
    "ZineList", "zine", zine, many=True, row_kind="item", roles=(Contract("zine_search", "search", takes=("query",)),)
)
ARCHETYPES = (ZINE, ZINE_LIST)
