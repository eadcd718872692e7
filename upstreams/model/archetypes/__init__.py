"""The named response shapes: constructors of their records, and how rows are wrapped (spec 2.2, decisions 3).

A record has every field of its archetype. A field that the upstream did not send is None. If the fields are not nested,
they are the constructor's arguments in the same order (`locals()`), so each name is written only once. Each family of
archetypes has its own module.
"""

from upstreams.model.archetypes.accounts import CREATOR_CARD, PROFILE_FULL, VOICE
from upstreams.model.archetypes.analytics import ANALYTICS, analytics, ranked
from upstreams.model.archetypes.apps import APP, APP_LIST, REVIEW_LIST, app, review, reviewer
from upstreams.model.archetypes.audit import HANDLE_AUDIT
from upstreams.model.archetypes.code import RELEASE_LIST, REPOSITORY, REPOSITORY_LIST, owner, release, repository
from upstreams.model.archetypes.composites import (
    DOSSIER,
    LOOKUP,
    VELOCITY,
    dossier,
    looked_up,
    movement,
    pace_of_profile,
    resolved,
)
from upstreams.model.archetypes.insight import INSIGHTS
from upstreams.model.archetypes.knowledge import (
    ARTICLE,
    ARTICLE_LIST,
    PLACE_LIST,
    SERIES,
    WEB_PAGE,
    WEB_PAGE_LIST,
    article,
    page,
    place,
    point,
    series,
)
from upstreams.model.archetypes.media import COLLECTION, COLLECTION_LIST, TRANSCRIPT, collection, cue, transcript
from upstreams.model.archetypes.people import AUTHOR, AUTHOR_LIST, author, byline
from upstreams.model.archetypes.posts import COMMENT, COMMENT_LIST, POST, POST_LIST, comment, post
from upstreams.model.archetypes.shape import Archetype, Record, coverage, leg
from upstreams.model.archetypes.threads import EVERYWHERE, GATHERED, OMNI

ARCHETYPES = {
    one.name: one
    for one in (
        *(AUTHOR, AUTHOR_LIST, POST, POST_LIST, COMMENT, COMMENT_LIST),
        *(REPOSITORY, REPOSITORY_LIST, RELEASE_LIST, ARTICLE, ANALYTICS, DOSSIER, VELOCITY, LOOKUP),
        *(APP, APP_LIST, REVIEW_LIST, ARTICLE_LIST, PLACE_LIST, SERIES, COLLECTION, COLLECTION_LIST, TRANSCRIPT),
        *(EVERYWHERE, CREATOR_CARD, PROFILE_FULL, VOICE, GATHERED, OMNI, HANDLE_AUDIT),
        *(WEB_PAGE, WEB_PAGE_LIST),
        *INSIGHTS,
    )
}
"""All archetypes by name."""
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
    "looked_up",
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
