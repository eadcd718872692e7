"""The named response shapes: constructors of records, and how rows are wrapped (spec 2.2, decisions 3).

A record holds every field of its archetype; what the upstream did not send is None. Where the fields are flat they are
the constructor's arguments, in their order (`locals()`), so that no name is written twice. Each family has a module.
"""

from upstreams.model.archetypes.analytics import ANALYTICS, analytics, ranked
from upstreams.model.archetypes.code import RELEASE_LIST, REPOSITORY, REPOSITORY_LIST, owner, release, repository
from upstreams.model.archetypes.composites import DOSSIER, VELOCITY, dossier, leg, movement, pace_of_profile
from upstreams.model.archetypes.knowledge import ARTICLE, article
from upstreams.model.archetypes.people import AUTHOR, AUTHOR_LIST, author, byline
from upstreams.model.archetypes.posts import COMMENT_LIST, POST, POST_LIST, comment, post
from upstreams.model.archetypes.shape import Archetype, Record

ARCHETYPES = {
    one.name: one
    for one in (
        *(AUTHOR, AUTHOR_LIST, POST, POST_LIST, COMMENT_LIST),
        *(REPOSITORY, REPOSITORY_LIST, RELEASE_LIST, ARTICLE, ANALYTICS, DOSSIER, VELOCITY),
    )
}
"""All of them by name."""
__all__ = [
    "ANALYTICS", "ARCHETYPES", "ARTICLE", "AUTHOR", "AUTHOR_LIST", "COMMENT_LIST", "DOSSIER", "POST", "POST_LIST",
    "RELEASE_LIST", "REPOSITORY", "REPOSITORY_LIST", "VELOCITY", "Archetype", "Record", "analytics", "article",
    "author", "byline", "comment", "dossier", "leg", "movement", "owner", "pace_of_profile", "post", "ranked",
    "release", "repository",
]  # fmt: skip
