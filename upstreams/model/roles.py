"""The roles that endpoints play, so that a composite says what it needs and not who has it (decisions 18).

Most roles follow from an endpoint's archetype and its resource's name. One of another name declares its role:

    _videos("channel/videos", "A channel's videos.", ..., role="profile_posts")

`Platform.playing(role)` is the endpoint that plays it there. The values that name a thing in one role name it in those
that are `of` it too: a post's address also leads to its comments.
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
    """The promise of every endpoint that plays a role."""

    archetype: str
    """The name of its archetype."""
    resource: str = ""
    """The resource that plays it unless another declares it; `{post}` stands for the one in that role. "": any."""
    of: Role | None = None
    """It takes the parameters by which the endpoint in this role is called."""
    takes: tuple[str, ...] = ()
    """Further parameters that it takes."""


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
"""All roles; one stands behind the one that it is of."""


class Player(Protocol):
    """The part of an endpoint that its role follows from."""

    @property
    def resource(self) -> str:
        """As of `Endpoint`."""
        ...

    @property
    def archetype(self) -> Archetype:
        """As of `Endpoint`."""
        ...

    @property
    def role(self) -> Role | None:
        """As of `Endpoint`."""
        ...


P = TypeVar("P", bound=Player)


def casting(endpoints: Iterable[P]) -> dict[Role, P]:
    """The endpoint that plays each role among these; the first one where several could."""
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
