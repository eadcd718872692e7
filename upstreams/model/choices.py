"""The values among which a declaration chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

Tier = Literal["standard", "advanced", "premium"]
Kind = Literal["profile", "post", "comments", "search", "analytics"]
TTL_S: Final[Mapping[Kind, int]] = {"profile": 900, "post": 600, "comments": 300, "search": 120, "analytics": 1800}
"""How long the cache stores each kind of response, in seconds (decisions 8)."""
Category = Literal[
    "social",
    "video",
    "audio",
    "code",
    "forums",
    "news",
    "knowledge",
    "apps",
    "commerce",
    "places",
    "markets",
    "models",
    "analytics",
    "web",
    "combined",
]
"""The category of a platform. A platform without sources of its own, such as a composite, is `combined`."""
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)
