"""The named response shapes: constructors of their records, and how rows are wrapped (spec 2.2, decisions 3).

A record has every field of its archetype. A field that the upstream did not send is None. If the fields are not nested,
they are the constructor's arguments in the same order (`locals()`), so each name is written only once.

Each family of archetypes has its own module, which ends with `ARCHETYPES`. To add a family, add a module: schemas,
roles, CSV columns, the paths of Monitors, `prism/lookup`, discover runs and the documentation follow from it. Platforms
import its names from the module itself. Only names of the first families are also available here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from upstreams.model.archetypes.accounts import CREATOR_CARD, PROFILE_FULL, VOICE
from upstreams.model.archetypes.analytics import ANALYTICS, analytics, ranked
from upstreams.model.archetypes.apps import APP, APP_LIST, REVIEW_LIST, app, review, reviewer
from upstreams.model.archetypes.code import RELEASE_LIST, REPOSITORY, REPOSITORY_LIST, owner, release, repository
from upstreams.model.archetypes.composites import (
    DOSSIER,
    VELOCITY,
    dossier,
    lookup_of,
    movement,
    pace_of_profile,
    resolved,
)
from upstreams.model.archetypes.knowledge import (
    ARTICLE,
    ARTICLE_LIST,
    SERIES,
    WEB_PAGE,
    WEB_PAGE_LIST,
    article,
    page,
    point,
    series,
)
from upstreams.model.archetypes.locations import PLACE_LIST, place
from upstreams.model.archetypes.media import COLLECTION, COLLECTION_LIST, TRANSCRIPT, collection, cue, transcript
from upstreams.model.archetypes.people import AUTHOR, AUTHOR_LIST, author, byline
from upstreams.model.archetypes.posts import COMMENT, COMMENT_LIST, POST, POST_LIST, comment, post
from upstreams.model.archetypes.shape import Archetype, Record, coverage, leg
from upstreams.model.archetypes.threads import EVERYWHERE


def _families() -> Iterator[Archetype]:
    """Yield the archetypes of each module in this package, which lists them in its `ARCHETYPES`."""
    for module in iter_modules(__path__):
        if module.name != "shape":
            yield from import_module(f"{__name__}.{module.name}").ARCHETYPES


_FOUND = (*_families(),)
LOOKUP = lookup_of(_FOUND)
ARCHETYPES: Final[Mapping[str, Archetype]] = {
    one.name: one for one in sorted((*_FOUND, LOOKUP), key=lambda one: one.name)
}
"""All archetypes, sorted by name."""
__all__ = [
    "ANALYTICS",
    "APP",
    "APP_LIST",
    "ARCHETYPES",
    "ARTICLE",
    "ARTICLE_LIST",
    "AUTHOR",
    "AUTHOR_LIST",
    "COLLECTION",
    "COLLECTION_LIST",
    "COMMENT",
    "COMMENT_LIST",
    "CREATOR_CARD",
    "DOSSIER",
    "EVERYWHERE",
    "LOOKUP",
    "PLACE_LIST",
    "POST",
    "POST_LIST",
    "PROFILE_FULL",
    "RELEASE_LIST",
    "REPOSITORY",
    "REPOSITORY_LIST",
    "REVIEW_LIST",
    "SERIES",
    "TRANSCRIPT",
    "VELOCITY",
    "VOICE",
    "WEB_PAGE",
    "WEB_PAGE_LIST",
    "Archetype",
    "Record",
    "analytics",
    "app",
    "article",
    "author",
    "byline",
    "collection",
    "comment",
    "coverage",
    "cue",
    "dossier",
    "leg",
    "movement",
    "owner",
    "pace_of_profile",
    "page",
    "place",
    "point",
    "post",
    "ranked",
    "release",
    "repository",
    "resolved",
    "review",
    "reviewer",
    "series",
    "transcript",
]  # fmt: skip
