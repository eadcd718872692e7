"""The legs of a composite: calls to all platforms that have a role, made in parallel (decisions 14 and 18).

    def compare(platforms: Sequence[Platform], args: Args) -> Steps:
        parts = [part_of(one, "profile", {"handle": args.text("handle")}) for one in platforms]
        legs = yield from gather(parts)
        found = {leg.platform: leg.record for leg in legs if leg.answer}
        return Single(archetypes.compared(**found), legs=legs_of(legs))

Nothing here performs I/O: the fetch runs the parts in parallel, reports each one when it is done, and bills the parts
that succeeded.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from limits.errors import LimitError
from upstreams.model.archetypes import Record
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import (
    InvalidArgument,
    NotFound,
    PartUnavailable,
    UpstreamError,
    UpstreamFailed,
    failure_to_report,
)
from upstreams.model.params import State, Value
from upstreams.model.roles import CONTRACTS, Role
from upstreams.model.steps import Fetched, Leg, Missing, Page, Part, Single

LEG_S: Final = 10.0
"""The time limit of a leg, in seconds. Most legs answer within one second, and a slow leg must not delay the others."""


class Settled(NamedTuple):
    """A part of a composite, together with its answer."""

    part: Part
    answer: Fetched | Missing

    @property
    def platform(self) -> str:
        """The slug of the part's platform."""
        return self.part.platform

    @property
    def is_absent(self) -> bool:
        """Whether the platform reports that the item does not exist."""
        return isinstance(self.answer, Missing) and self.answer.absent

    @property
    def record(self) -> Record | None:
        """The record in the answer. None if the leg failed, or if the record has neither an id nor a text."""
        if not isinstance(self.answer, Fetched) or not isinstance(self.answer.result, Single):
            return None
        record = self.answer.result.record
        return None if "id" in record and record["id"] is None and not record.get("text") else record

    @property
    def records(self) -> list[Record]:
        """The rows in the answer. Empty if the leg failed."""
        result = self.answer.result if isinstance(self.answer, Fetched) else None
        return result.records if isinstance(result, Page) else []

    @property
    def next(self) -> State | None:
        """The state from which the next page can be requested, or None on the last page."""
        result = self.answer.result if isinstance(self.answer, Fetched) else None
        return result.next if isinstance(result, Page) else None


def playing(platforms: Iterable[Platform], *roles: Role) -> tuple[Platform, ...]:
    """Return the platforms that have an endpoint for each of these roles."""
    return tuple(one for one in platforms if all(one.playing(role) for role in roles))


def with_missing(platforms: Iterable[Platform], slugs: Iterable[str]) -> tuple[Platform, ...]:
    """Return these platforms, and an empty platform for each missing slug, whose legs report `unsupported`."""
    known = tuple(platforms)
    absent = [slug for slug in slugs if slug not in {one.slug for one in known}]
    return (*known, *(Platform(slug=slug, title=slug, sources={}, endpoints=()) for slug in absent))


def part_of(
    platform: Platform,
    role: Role,
    values: Mapping[str, Value],
    *,
    rows: int = 0,
    cursor: State | None = None,
    within_s: float = LEG_S,
) -> Part:
    """Return a platform's endpoint for a role as an optional part. For a list, the part requests up to `rows` rows."""
    endpoint = platform.playing(role)
    resource = CONTRACTS[role].resource if endpoint is None else endpoint.resource
    sized = {**values, **_sized(endpoint, rows)} if rows and endpoint is not None else values
    return Part(resource, sized, True, platform.slug, cursor, within_s)  # noqa: FBT003 - the flag is `optional`


def _sized(endpoint: Endpoint, rows: int) -> dict[str, Value]:
    param = next((one for one in endpoint.params if one.name == "limit"), None)
    return {} if param is None else {"limit": min(rows, param.maximum or rows)}


def named(platform: Platform, role: Role, name: str) -> dict[str, Value]:
    """Return the value that identifies an account or item.

    It is sent as `handle` if the endpoint accepts that parameter.
    """
    endpoint = platform.playing(role)
    return {"handle" if endpoint is None or "handle" in endpoint.named_by else endpoint.named_by[0]: name}


def gather(parts: Sequence[Part]) -> Generator[tuple[Part, ...], Any, list[Settled]]:
    """Run these parts in parallel, and return one leg for each.

    Raises:
        UpstreamError, LimitError: All parts failed. The error is the most useful of their failures.
    """
    settled = yield from attempt(parts)
    check_any(settled)
    return settled


def attempt(parts: Sequence[Part]) -> Generator[tuple[Part, ...], Any, list[Settled]]:
    """Run these parts in parallel, and return one leg for each, even if all of them fail."""
    answers = (yield tuple(parts)) if parts else ()
    return [Settled(part, answer) for part, answer in zip(parts, answers, strict=True)]


def check_any(settled: Sequence[Settled]) -> None:
    """Raise the most useful failure if no leg succeeded."""
    if not any(leg.answer for leg in settled):
        raise failure_of(settled)


def failure_of(settled: Sequence[Settled]) -> UpstreamError | LimitError:
    """Return the failure to report if all legs failed. An outage takes precedence over "not found"."""
    failures = [leg.answer.failure for leg in settled if isinstance(leg.answer, Missing) and leg.answer.failure]
    failed = [one for one in failures if not isinstance(one, NotFound | InvalidArgument | PartUnavailable)]
    if failed:
        return failure_to_report(failed)
    absent = next((one for one in failures if isinstance(one, NotFound)), None)
    return absent or next(iter(failures), None) or UpstreamFailed("composite", "no leg succeeded")


def legs_of(settled: Iterable[Settled]) -> tuple[Leg, ...]:
    """Return the legs in the form in which a response reports them."""
    return tuple(Leg(f"{leg.part.platform}/{leg.part.resource}", leg.answer) for leg in settled)


def states_of(cursor: State | None) -> dict[str, State | None] | None:
    """Return the state from which each leg continues, by platform.

    None means that all legs start from the beginning. If a platform has no state, its list has ended.
    """
    if cursor is None:
        return None
    return {name: orjson.loads(str(state)) for name, state in cursor.items()}


def joined_states(settled: Iterable[Settled]) -> State | None:
    """Return one cursor for all legs, or None if no leg has a next page.

    It contains the next page of each leg. For a leg that failed, it contains the same page again.
    """
    states: dict[str, str | int] = {}
    for leg in settled:
        failure = leg.answer.failure if isinstance(leg.answer, Missing) else None
        if failure is not None and not isinstance(failure, NotFound | InvalidArgument | PartUnavailable):
            states[leg.platform] = orjson.dumps(leg.part.cursor).decode()
        elif leg.next is not None:
            states[leg.platform] = orjson.dumps(leg.next).decode()
    return states or None
