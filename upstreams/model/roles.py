"""The roles of endpoints. A composite names the role it needs, not an endpoint (decisions 18).

Each archetype lists the roles that its endpoints can have (`Archetype.roles`). Most endpoints get their role from their
archetype and resource name. An endpoint with another name declares its role:

    Endpoint(resource="channel/videos", ..., role="profile_posts")

`Platform.playing(role)` returns the endpoint with a role. Values that identify an item in one role also identify it in
the roles that are `of` that role. For example, the URL of a post also leads to its comments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeVar

from upstreams.model.archetypes import ARCHETYPES, Archetype
from upstreams.model.archetypes.shape import Contract

Role = str
CONTRACTS: Final[Mapping[Role, Contract]] = {
    one.role: one
    for one in sorted(
        (contract for archetype in ARCHETYPES.values() for contract in archetype.roles),
        key=lambda contract: contract.needs_others,
    )
}
"""The contract of each role. A role that needs other roles comes after them."""
ARCHETYPE_OF: Final[Mapping[Role, Archetype]] = {
    contract.role: archetype for archetype in ARCHETYPES.values() for contract in archetype.roles
}
"""The archetype of each role."""


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
    declared, silent = dict[Role, P](), defaultdict[str, list[P]](list)
    parts, resources = dict[Role, P](), defaultdict[Role, str](str)
    for one in endpoints:
        if one.role is None:
            silent[one.archetype.name].append(one)
        else:
            declared.setdefault(one.role, one)
    for role, contract in CONTRACTS.items():
        found = declared.get(role)
        if found is None and (contract.of is None or contract.of in parts):
            usual = contract.resource.format_map(resources)
            found = next((one for one in silent[ARCHETYPE_OF[role].name] if usual in ("", one.resource)), None)
        if found is not None:
            parts[role], resources[role] = found, found.resource
    return parts
