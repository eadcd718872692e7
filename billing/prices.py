"""The prices of calls, in credits (spec 8)."""

from typing import Literal, TypeAlias

Tier: TypeAlias = Literal["standard", "advanced", "premium"]

STANDARD = 1
ADVANCED = 5
PREMIUM = 10


def credits_for(tier: Tier, override: int | None = None) -> int:
    """Return the price of one call: `override` if the endpoint has its own price (which may be 0), else the tier's."""
    if override is not None:
        return override
    match tier:
        case "standard":
            return STANDARD
        case "advanced":
            return ADVANCED
        case "premium":
            return PREMIUM
