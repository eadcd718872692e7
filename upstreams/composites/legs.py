"""The legs of a composite: parts of the platforms that play a role, made together (decisions 14 and 18).

    def compare(platforms: Sequence[Platform], args: Args) -> Steps:
        parts = [part_of(one, "profile", {"handle": args.text("handle")}) for one in platforms]
        legs = yield from gather(parts)
        found = {leg.platform: leg.record for leg in legs if leg.answer}
        return Single(archetypes.compared(**found), legs=legs_of(legs))

Everything here is pure: the fetch makes the parts side by side, tells each as it settles, and bills by those that came.
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
    most_useful,
)
from upstreams.model.params import State, Value
from upstreams.model.roles import CONTRACTS, Role
from upstreams.model.steps import Fetched, Leg, Missing, Page, Part, Single

LEG_S: Final = 10.0
"""Seconds that a leg has: most answer within one, and nobody waits longer for the last of many."""


class Settled(NamedTuple):
    """A part and the answer that it got."""

    part: Part
    answer: Fetched | Missing

    @property
    def platform(self) -> str:
        """The slug of its platform."""
        return self.part.platform

    @property
    def is_absent(self) -> bool:
        """Whether the platform says that there is no such thing."""
        return isinstance(self.answer, Missing) and self.answer.absent

    @property
    def record(self) -> Record | None:
        """The record that came; None where none did, or one without anything to know it by."""
        if not isinstance(self.answer, Fetched) or not isinstance(self.answer.result, Single):
            return None
        record = self.answer.result.record
        return None if "id" in record and record["id"] is None and not record.get("text") else record

    @property
    def records(self) -> list[Record]:
        """The rows that came."""
        result = self.answer.result if isinstance(self.answer, Fetched) else None
        return result.records if isinstance(result, Page) else []

    @property
    def next(self) -> State | None:
        """The page after the one that came; None where there is none."""
        result = self.answer.result if isinstance(self.answer, Fetched) else None
        return result.next if isinstance(result, Page) else None


def playing(platforms: Iterable[Platform], *roles: Role) -> tuple[Platform, ...]:
    """The platforms that have an endpoint in each of these roles."""
    return tuple(one for one in platforms if all(one.playing(role) for role in roles))


def foreseen(platforms: Iterable[Platform], slugs: Iterable[str]) -> tuple[Platform, ...]:
    """These platforms, and an empty one for each of these slugs that is not there: its legs say `unsupported`."""
    known = tuple(platforms)
    absent = [slug for slug in slugs if slug not in {one.slug for one in known}]
    return (*known, *(Platform(slug=slug, title=slug, sources={}, endpoints=(), docs_url="") for slug in absent))


def part_of(
    platform: Platform,
    role: Role,
    values: Mapping[str, Value],
    *,
    rows: int = 0,
    cursor: State | None = None,
    within_s: float = LEG_S,
) -> Part:
    """The endpoint in a role as a part that may fail, with as many `rows` as it gives at once where it is a list."""
    endpoint = platform.playing(role)
    resource = CONTRACTS[role].resource if endpoint is None else endpoint.resource
    sized = {**values, **_sized(endpoint, rows)} if rows and endpoint is not None else values
    return Part(resource, sized, True, platform.slug, cursor, within_s)  # noqa: FBT003 - it is optional


def _sized(endpoint: Endpoint, rows: int) -> dict[str, Value]:
    param = next((one for one in endpoint.params if one.name == "limit"), None)
    return {} if param is None else {"limit": min(rows, param.maximum or rows)}


def named(platform: Platform, role: Role, name: str) -> dict[str, Value]:
    """The value by which an endpoint's account or thing is named: a handle where it takes one."""
    endpoint = platform.playing(role)
    return {"handle" if endpoint is None or "handle" in endpoint.named_by else endpoint.named_by[0]: name}


def gather(parts: Sequence[Part]) -> Generator[tuple[Part, ...], Any, list[Settled]]:
    """Make these parts side by side.

    Raises:
        UpstreamError, LimitError: none of them came; the failure that tells most.
    """
    settled = yield from attempt(parts)
    check_any(settled)
    return settled


def attempt(parts: Sequence[Part]) -> Generator[tuple[Part, ...], Any, list[Settled]]:
    """Make these parts side by side, of which none has to come."""
    answers = (yield tuple(parts)) if parts else ()
    return [Settled(part, answer) for part, answer in zip(parts, answers, strict=True)]


def check_any(settled: Sequence[Settled]) -> None:
    """Refuse an answer without a leg that came."""
    if not any(leg.answer for leg in settled):
        raise failure_of(settled)


def failure_of(settled: Sequence[Settled]) -> UpstreamError | LimitError:
    """The failure of a composite without these legs: of one that failed before "no such thing"."""
    failures = [leg.answer.failure for leg in settled if isinstance(leg.answer, Missing) and leg.answer.failure]
    failed = [one for one in failures if not isinstance(one, NotFound | InvalidArgument | PartUnavailable)]
    if failed:
        return most_useful(failed)
    absent = next((one for one in failures if isinstance(one, NotFound)), None)
    return absent or next(iter(failures), None) or UpstreamFailed("composite", "no leg came")


def legs_of(settled: Iterable[Settled]) -> tuple[Leg, ...]:
    """The legs of an answer."""
    return tuple(Leg(f"{leg.part.platform}/{leg.part.resource}", leg.answer) for leg in settled)


def states_of(cursor: State | None) -> dict[str, State | None] | None:
    """Where each leg goes on, by the name of its platform; None: all begin, and those without a state have ended."""
    if cursor is None:
        return None
    return {name: orjson.loads(str(state)) for name, state in cursor.items()}


def joined_states(settled: Iterable[Settled]) -> State | None:
    """The one cursor of all legs: the next page of each, and the same one again where it failed; None: none goes on."""
    states: dict[str, str | int] = {}
    for leg in settled:
        failure = leg.answer.failure if isinstance(leg.answer, Missing) else None
        if failure is not None and not isinstance(failure, NotFound | InvalidArgument | PartUnavailable):
            states[leg.platform] = orjson.dumps(leg.part.cursor).decode()
        elif leg.next is not None:
            states[leg.platform] = orjson.dumps(leg.next).decode()
    return states or None
