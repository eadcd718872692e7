"""Recipes with scripted results, which record their calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import trio

from limits.errors import LimitError
from scheduler.recipes import Gathered, GatheringFailed, Recipe, RecipeInvalid
from upstreams.model.archetypes import POST_LIST
from upstreams.model.errors import UpstreamError
from upstreams.model.params import State

LEG = {"endpoint": "github/search", "source": "api", "rung": "primary", "rung_index": 0, "status": "ok"}


def gathered(
    data: Any, *, coverage: float = 1.0, whole: bool = True, used_credits: int = 5, warnings: Sequence[str] = ()
) -> Gathered:
    rows = data.get("items")
    rows_count = len(rows) if isinstance(rows, list) else None
    return Gathered(data, orjson.dumps(data), [LEG], coverage, whole, used_credits, warnings, rows_count)


@dataclass(slots=True)
class ScriptedRecipes:
    """Implements `scheduler.recipes.Recipes`.

    `answer` returns the result or raises, after a delay of `takes_s` and the end of `turn`.
    """

    answer: Callable[[Recipe], Gathered] = field(default=lambda _recipe: gathered({"stars": 7}))
    takes_s: float = 0.0
    turn: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    credits_least: int = 5
    credits_most: int = 5
    asked: list[str] = field(default_factory=list)
    """The parameter `who` of each gathered recipe, in order."""
    under_way: int = 0
    most_under_way: int = 0

    def read(self, recipe: str, params: object, *, rows: int | None = None) -> Recipe:
        assert isinstance(params, dict)
        if recipe == "gone/gone":
            raise RecipeInvalid("recipe", "names no data endpoint", "Send another.")
        return Recipe(f"/v1/{recipe}", params, POST_LIST, "github", self.credits_least, self.credits_most)

    async def gather(
        self,
        recipe: Recipe,
        credits_held: int,
        *,
        timeout_s: float,
        account_id: str = "",
        as_sent: bool = False,
        cursor: State | None = None,
    ) -> Gathered:
        assert account_id, "each call needs an account"
        assert self.credits_least <= credits_held <= self.credits_most
        assert timeout_s > 0
        self.asked.append(str(recipe.values.get("who", "")))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await trio.sleep(self.takes_s)
            await self.turn()
        finally:
            self.under_way -= 1
        try:
            return self.answer(recipe)
        except (UpstreamError, LimitError) as exc:
            raise GatheringFailed(str(exc), [{**LEG, "status": "failed", "error": "UPSTREAM_ERROR"}]) from exc
