"""A registry of the size that the service is designed for: 70 platforms with 500 endpoints, most of them copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Set
from copy import copy
from dataclasses import replace
from math import ceil

from upstreams.composites import load_all
from upstreams.model.choices import CATEGORIES
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Param
from upstreams.web import SLUG as WEB

PLATFORMS = 70
ENDPOINTS = 500
_CATEGORIES = [one for one in CATEGORIES if one != "combined"]


def many_platforms() -> tuple[Platform, ...]:
    """Return everything that a node serves, plus copies of platforms under other names.

    Copies differ from each other like platforms do: each has its own parameters, so that no document can share them
    between platforms. Only parameters that several platforms declare alike, such as a `limit` up to 100, are equal in
    copies too. Copies require no credentials except suppliers, so that a test node offers all of their endpoints, and
    there are copies in all categories.
    """
    found = list(load_all())
    originals = [one for one in found if one.sources and one.slug != WEB]
    users = Counter(param for one in originals for param in {param for each in one.endpoints for param in each.params})
    alike = {param for param, count in users.items() if count > 1}
    for number in range(PLATFORMS - len(found)):
        lacking = ENDPOINTS - sum(len(one.endpoints) for one in found)
        count = ceil(lacking / (PLATFORMS - len(found)))
        found.append(_copy(originals[number % len(originals)], number, count, alike))
    return tuple(found)


def _copy(platform: Platform, number: int, count: int, alike: Set[Param]) -> Platform:
    """Return a platform with up to `count` endpoints of another one."""
    endpoints = tuple(_copied(one, number, alike, platform.partners) for one in platform.endpoints[:count])
    resources = {one.resource for one in endpoints}
    return replace(
        platform,
        slug=f"{platform.slug}_{number}",
        title=f"{platform.title} {number}",
        category=_CATEGORIES[number % len(_CATEGORIES)],
        endpoints=endpoints,
        address_forms=tuple(form for form in platform.address_forms if form.resource in resources),
    )


def _copied(endpoint: Endpoint, number: int, alike: Set[Param], partners: Container[str]) -> Endpoint:
    """Return an endpoint whose parameters, except those in `alike`, are equal only within one copied platform."""

    def own(params: Iterable[Param]) -> tuple[Param, ...]:
        return tuple(
            one if one in alike else replace(one, description=f"{one.description.removesuffix('.')} {number}.")
            for one in params
        )

    located = copy(endpoint.located)
    if located is not None:
        located.params = own(located.params)
    needs = tuple(name for name in endpoint.needs if name in partners)
    return replace(endpoint, params=own(endpoint.params), located=located, needs=needs)
