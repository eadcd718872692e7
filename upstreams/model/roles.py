"""The roles of endpoints. A composite names the role it needs, not an endpoint (decisions 18).

Most roles follow from the archetype and the resource name of an endpoint. An endpoint with another name declares its
role:

    Endpoint(resource="channel/videos", ..., role="profile_posts")

`Platform.playing(role)` returns the endpoint with a role. Values that identify an item in one role also identify it in
the roles that are `of` that role. For example, the URL of a post also leads to its comments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstreams.model.archetypes import Archetype

Role = Literal[
    "profile",
    "profile_posts",
    "post",
    "comments",
    "replies",
    "comment",
    "search",
    "repository",
    "repositories",
    "repository_search",
    "dossier",
    "app",
    "app_reviews",
    "app_search",
    "transcript",
]


class Contract(NamedTuple):
    """The guarantees that every endpoint with a role gives."""

    archetype: str
    """The name of the endpoint's archetype."""
    resource: str = ""
    """The resource whose endpoint has this role, unless an endpoint declares the role. `{post}` stands for the resource
    of the role `post`. If it is empty, any resource matches."""
    of: Role | None = None
    """The role whose parameters the endpoint also accepts."""
    takes: tuple[str, ...] = ()
    """Other parameters that the endpoint accepts."""


CONTRACTS: Final[Mapping[Role, Contract]] = {
    "profile": Contract("Author", "profile"),
    "profile_posts": Contract("PostList", "profile/posts", of="profile"),
    "post": Contract("Post"),
    "comments": Contract("CommentList", "{post}/comments", of="post"),
    "replies": Contract("CommentList", "{post}/comment/replies"),
    "comment": Contract("Comment"),
    "search": Contract("PostList", "search", takes=("query",)),
    "repository": Contract("Repository"),
    "repositories": Contract("RepositoryList", "profile/repos", of="profile"),
    "repository_search": Contract("RepositoryList", "search/repos", takes=("query",)),
    "dossier": Contract("RepositoryDossier", of="repository"),
    "app": Contract("App"),
    "app_reviews": Contract("ReviewList", of="app"),
    "app_search": Contract("AppList", "search", takes=("query",)),
    "transcript": Contract("Transcript", of="post"),
}
"""The contract of each role. A role that is `of` another role comes after that role."""


class Player(Protocol):
    """The attributes of an endpoint from which its role is determined."""

    @property
    def resource(self) -> str:
        """See `Endpoint`."""
        ...

    @property
    def archetype(self) -> Archetype:
        """See `Endpoint`."""
        ...

    @property
    def role(self) -> Role | None:
        """See `Endpoint`."""
        ...


P = TypeVar("P", bound=Player)


def casting(endpoints: Iterable[P]) -> dict[Role, P]:
    """Return the endpoint for each role that a platform has.

    If several endpoints match a role, the first one is used.
    """
    listed, parts = tuple(endpoints), dict[Role, P]()
    for role, contract in CONTRACTS.items():
        declared = [one for one in listed if one.role == role]
        usual = contract.resource.format_map({"post": parts["post"].resource if "post" in parts else ""})
        fitting = [
            one
            for one in listed
            if one.archetype.name == contract.archetype and usual in ("", one.resource) and one.role is None
        ]
        if found := declared or fitting:
            parts[role] = found[0]
    return parts
