"""The dependencies that all parts of cohorts share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from billing.charges.charges import Charges
from billing.keys.sealing import Cipher
from limits.long_reads import LongReads
from scheduler.jobs.cohorts.platforms import PostRoutes
from scheduler.recipes import RecipePages, Recipes
from storage.store import Store


class PageRecipes(Recipes, RecipePages, Protocol):
    """Reads recipes, and pages of their lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortSetting:
    """The dependencies of cohorts: the store, charges, the node's cipher, and the platforms with lists of posts."""

    store: Store
    charges: Charges
    cipher: Cipher
    recipes: PageRecipes
    routes: PostRoutes
    now: Callable[[], float]
    make_id: Callable[[str], str]
    reads: LongReads
