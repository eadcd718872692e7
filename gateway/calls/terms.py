"""The terms of a call: a fresh response, a maximum price, or only an estimate (decisions 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.calls.execute import BilledCalls
from gateway.calls.planning import above_max
from gateway.calls.request import CallRequest


async def apply_terms(calls: BilledCalls, call: CallRequest) -> None:
    """Apply `fresh`, `max_age` and `max_credits` to a call.

    Raises:
        Refused: The call would reserve more than `max_credits` (decisions 6). A cache hit is free and always passes.
    """
    call.refresh = call.refresh or _wants_fresh(calls, call)
    if "max_credits" in call.values:
        call.credits_max = int(call.values["max_credits"])
        refusal = above_max(call, calls.quote(call))
        if refusal is not None and not await calls.would_hit(call):
            raise refusal


def _wants_fresh(calls: BilledCalls, call: CallRequest) -> bool:
    """Return whether the parameters request a fresh response, or a response younger than the cached one."""
    if "max_age" in call.values:
        return not calls.is_young(call, int(call.values["max_age"]) / 1_000)
    return bool(call.values.get("fresh"))


async def estimate(calls: BilledCalls, call: CallRequest) -> Mapping[str, Any]:
    """Return the data of a dry run: what the call would cost, without making the call."""
    quote, endpoint = calls.quote(call), call.listing.endpoint
    hit = await calls.would_hit(call)
    data = {"estimated_credits": 0 if hit else quote.credits_least, "would_hit_cache": hit}
    if quote.credits > quote.credits_least and not hit:  # A call with several pages reserves more while it runs.
        data["reserved_credits"] = quote.credits
    if endpoint.preview is not None:
        data |= endpoint.preview(call.values)
    if "limit" in call.values:  # The effective value, capped at the endpoint's maximum.
        data["limit"] = int(call.values["limit"])
    return data
