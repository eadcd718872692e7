"""The catalog's endpoints as rows of tests, their requests, and checks of many endpoints on one node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.fakes.node import OpenNode
from tests.gate.matrix import by_platform, sample_platforms
from tests.spec.shared_node import check_cases, check_on
from upstreams.composites import composite_slugs, load_all
from upstreams.fetching.spending import Spending
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.refusals import Bucket
from upstreams.sandbox.rehearse import example_values


def _needed() -> Iterator[tuple[str, str]]:
    """Return the credentials that any endpoint requires, with their platforms."""
    for platform in load_all():
        for name in dict.fromkeys(name.split("|")[0] for one in platform.endpoints for name in one.needs):
            # The contact is the operator's URL, not a secret, and test nodes have a supplier of each interface.
            if name != "contact" and name not in platform.partners:
                yield platform.slug, name


CONTACT = "https://operator.example.org"
_VARIABLES: dict[str, dict[str, str]] = {}
for _slug, _name in _needed():
    _VARIABLES.setdefault(_slug, {})[f"{_name}_env"] = f"{_slug}_{_name}".upper()
CREDENTIALS: dict[str, object] = {"operator_contact": CONTACT, **_VARIABLES}
"""The `[upstreams]` tables of config.toml that make every endpoint available."""
OF_PLATFORMS = {name: told for name, told in CREDENTIALS.items() if name not in composite_slugs()}
"""The same tables for a node that has no composites."""
ENVIRON = {f"{slug}_{name}".upper(): f"{name}.{slug}.test" for slug, name in _needed()}


TIERS = {"standard": 1, "advanced": 5, "premium": 10}


@dataclass(frozen=True, slots=True)
class Row:
    """One endpoint of one platform."""

    platform: Platform
    endpoint: Endpoint

    @property
    def id(self) -> str:
        return f"{self.platform.slug}/{self.endpoint.resource}"

    @property
    def cost(self) -> range:
        """The credits that the example may cost."""
        price = self.endpoint.price
        least, most = (TIERS[self.endpoint.tier],) * 2 if price is None else price.span(example_values(self.endpoint))
        return range(least, most + 1)

    def target(self, **more: object) -> str:
        """Return the example request, with parameters changed or added. None removes a parameter."""
        values: Mapping[str, object] = {**example_values(self.endpoint), **more}
        query = urlencode({name: value for name, value in values.items() if value is not None})
        return f"/v1/{self.id}?{query}".removesuffix("?")


ROWS = tuple(Row(platform, endpoint) for platform in load_all() for endpoint in platform.endpoints)
SOME_ROWS = sample_platforms(ROWS, lambda row: row.platform.slug)
"""A sixth of the endpoints, and all endpoints of changed platforms; see `tests.gate.matrix`."""
LISTS = tuple(row for row in ROWS if row.endpoint.archetype.many)
"""Including the lists of composites."""


Rows = Sequence[Row]


def _by_platform(rows: Iterable[Row]) -> pytest.MarkDecorator:
    grouped = by_platform(rows, lambda row: row.platform.slug)
    return pytest.mark.parametrize("rows", grouped.values(), ids=grouped)


every_platform = _by_platform(ROWS)
"""A sixth of the endpoints by platform, for `check_rows`; see `tests.gate.matrix`."""
every_platform_lists = _by_platform(row for row in LISTS if not row.endpoint.archetype.has_legs)
"""A sixth of the lists by platform, for `check_rows`. `tests/upstreams/composites` walks the lists of composites."""


async def check_rows(node: OpenNode, rows: Iterable[Row], check: Callable[[OpenNode, Row], Awaitable[None]]) -> None:
    """Run `check` for each endpoint on a node that has all credentials; see `check_on`."""
    await check_on(node, {row.id: row for row in rows}, check)


async def check_each(
    rows: Iterable[Row],
    check: Callable[[OpenNode, Row], Awaitable[None]],
    folder: Path,
    *,
    upstreams: Mapping[str, object] = CREDENTIALS,
    **tables: Any,
) -> None:
    """Run `check` for each endpoint on one node that has all credentials; see `check_cases`."""
    with unpaced():
        await check_cases({row.id: row for row in rows}, check, folder, environ=ENVIRON, upstreams=upstreams, **tables)


@contextmanager
def unpaced() -> Iterator[None]:
    """Call upstreams without pacing, which has its own tests. Some composites would otherwise take 40 seconds."""
    with pytest.MonkeyPatch.context() as patch:
        for limit in (Bucket, Spending):
            patch.setattr(limit, "wait_s", lambda _limit, _path, _now: 0.0)
        yield
