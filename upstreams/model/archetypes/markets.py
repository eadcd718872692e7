"""Prediction markets."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Of, Record, Url


def outcome(
    *,
    name: Annotated[str | None, "Name of the outcome."],
    price: Annotated[float | None, "The price, 0 to 1, which is the probability that traders assign."] = None,
) -> Record:
    """A possible outcome of a market."""
    return locals()


def market(
    *,
    id: Annotated[str | None, "The market's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the market."],
    question: Annotated[str | None, "The question that the market decides."],
    outcomes: Annotated[list[Record] | None, Of(outcome), "The possible outcomes."] = None,
    volume: Annotated[float | None, "Total trades, in the platform's currency."] = None,
    liquidity: Annotated[float | None, "Liquidity, in the platform's currency."] = None,
    closed: Annotated[bool | None, "Whether trading has ended."] = None,
    ends_at: Annotated[Instant, "Time at which trading ends."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A prediction market."""
    outcomes, ext = outcomes or [], ext or {}
    return locals()


MARKET = Archetype("Market", "market", market, lookup_rank=57, roles=(Contract("market"),))
MARKET_LIST = Archetype(
    "MarketList",
    "market",
    market,
    many=True,
    row_kind="item",
    roles=(Contract("market_search", "search", takes=("query",)),),
)
ARCHETYPES = (MARKET, MARKET_LIST)
