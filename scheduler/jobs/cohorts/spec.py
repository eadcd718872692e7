"""The requests of cohorts: as sent, validated, and as stored in a query's job (decisions 14 and 20)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Final, NamedTuple

import msgspec
import orjson
from msgspec import Meta

from events.instants import no_instant, unix
from scheduler.errors import CohortIdentityConflict, CohortQueryTooDear, JobInvalid
from scheduler.jobs.cohorts.cohort_rows import NewMember
from scheduler.jobs.cohorts.matching import normalized
from scheduler.jobs.cohorts.platforms import PostRoute, PostRoutes, route_at
from scheduler.jobs.cohorts.query_rows import KIND
from scheduler.jobs.cohorts.sealing import CohortKey
from scheduler.jobs.service import JobDraft
from scheduler.recipes import RecipeInvalid, Recipes

COHORTS_MAX: Final = 100
MEMBERS_MAX: Final = 10_000
MEMBERS_AT_ONCE: Final = 1_000
TEXT_MAX: Final = 256
NAME_MAX: Final = 120
KEYWORDS_MAX: Final = 20
KEYWORD_MAX: Final = 100
ITEMS_MAX: Final = 1_000
PAGES_MAX: Final = 20
CREDITS_MAX: Final = 1_000_000
SHARD_PAGES: Final = 20
"""The maximum number of pages in a shard. A crash repeats at most this many."""
ACCOUNT: Final = "account"


class CohortBody(msgspec.Struct, frozen=True):
    """The fields of a new cohort."""

    name: Annotated[str | None, Meta(description="Up to 120 characters.", examples=["Climate researchers"])] = None
    retention_days: Annotated[
        int, Meta(description="Days that the cohort is kept after its last use, 7 to 90.", examples=[30])
    ] = 30


class MemberBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member of a cohort: an account on a platform."""

    platform: Annotated[str, Meta(description="The platform's slug.", examples=["bluesky"])]
    handle: Annotated[str, Meta(description="The account's name on the platform.", examples=["bsky.app"])]
    external_id: Annotated[
        str | None, Meta(description="Your own id for the person; several accounts may share it.", examples=["p-1"])
    ] = None


class MembersBody(msgspec.Struct, frozen=True):
    """New members to add, and existing members that get an external id."""

    members: Annotated[list[MemberBody], Meta(description="1 to 1,000 members.")]


class QueryBody(msgspec.Struct, frozen=True):
    """The fields of a new query."""

    keywords: Annotated[
        list[str],
        Meta(description="1 to 20 words or phrases; a post must contain one of them.", examples=[["acme"]]),
    ]
    date_from: Annotated[
        str, Meta(description="Only posts from this time or later, ISO 8601.", examples=["2026-01-01T00:00:00Z"])
    ]
    max_credits: Annotated[int, Meta(description="Reject the query if it could cost more than this.", examples=[100])]
    max_items_per_identity: Annotated[
        int, Meta(description="The maximum number of results per member, 1 to 1,000.", examples=[50])
    ]
    max_pages_per_identity: Annotated[
        int, Meta(description="The maximum number of pages read per member, 1 to 20.", examples=[2])
    ]
    date_to: Annotated[
        str | None, Meta(description="Only posts before this time; omit it to search up to now.", examples=[None])
    ] = None
    platforms: Annotated[
        list[str] | None, Meta(description="Search only members on these platforms.", examples=[["bluesky"]])
    ] = None


class QuerySpec(msgspec.Struct, frozen=True):
    """A query as its job stores it."""

    cohort_id: str
    keywords: str
    """The sealed keywords in base64."""
    date_from: float
    date_to: float | None
    max_items: int
    max_pages: int
    platforms: tuple[str, ...] = ()
    """The platforms to read. Empty for all platforms."""
    prices: dict[str, int] = {}
    """The page price of each platform that could be read when the query started. Other platforms are not read."""


@lru_cache(maxsize=100)  # at most 50 KB each, and a few dozen are in use at the same time
def spec_of(text: str) -> QuerySpec:
    """Return the query that a job stores. Cached, because each of its shards reads it."""
    return msgspec.json.decode(text, type=QuerySpec)


def check_cohort(sent: CohortBody) -> None:
    """Check the fields of a new cohort. Raises JobInvalid."""
    if sent.name is not None and not 1 <= len(sent.name) <= NAME_MAX:
        raise JobInvalid("name", f"must have 1 to {NAME_MAX} characters", "Send a shorter name, or none.")
    _check_number("retention_days", sent.retention_days, 7, 90)


class SentMember(NamedTuple):
    """A member as it was sent, with the route of its platform."""

    param: str
    """The path of the member in the request body."""
    route: PostRoute
    identity: str
    handle: str
    external_id: str | None


class SealedMember(NamedTuple):
    """A member to store, and the same member under its plain form if the handle was sent in another form."""

    param: str
    kept: NewMember
    plain: NewMember


def sent_member(place: int, sent: MemberBody, routes: PostRoutes, recipes: Recipes) -> SentMember:
    """Validate a member that was sent.

    Raises:
        CohortPlatformUnsupported: its platform has no list of posts.
        JobInvalid: its handle or its external id is not valid.
    """
    param = f"members[{place}]"
    route = route_at(f"{param}.platform", sent.platform, routes)
    for name, text in (("handle", sent.handle), ("external_id", sent.external_id)):
        if text is not None and not 1 <= len(text) <= TEXT_MAX:
            raise JobInvalid(f"{param}.{name}", f"must have 1 to {TEXT_MAX} characters", "Send a shorter value.")
    if not (identity := route.plain(sent.handle)):
        raise JobInvalid(f"{param}.handle", "is empty", "Send the account's name on the platform.")
    if route.is_available:
        try:
            identity = route.identity(route.recipe(recipes, sent.handle))
        except RecipeInvalid as exc:  # the text of the error may repeat the handle
            wanted = " or ".join(route.named_by)
            problem, how = (
                f"is not a valid {wanted} of {route.platform}",
                "Send the account's name or id there.",
            )
            raise JobInvalid(f"{param}.handle", problem, how, reason=exc.reason) from None
    return SentMember(param, route, identity, sent.handle, sent.external_id)


def sealed_members(key: CohortKey, cohort_id: str, sent: Sequence[SentMember]) -> list[SealedMember]:
    """Return the members to store, in order. An account that is listed twice is stored once.

    Raises:
        CohortIdentityConflict: an account has two external ids.
    """
    made: dict[bytes, SealedMember] = {}
    for one in sent:
        kept = _sealed(key, cohort_id, one, one.identity)
        known = made.get(kept.identity)
        if known is not None and None not in (kept.external, known.kept.external):
            if kept.external != known.kept.external:
                raise CohortIdentityConflict(one.param)
        elif known is None or kept.external is not None:
            plain = one.route.plain(one.handle)
            same = kept if plain == one.identity else _sealed(key, cohort_id, one, plain)
            made[kept.identity] = SealedMember(one.param, kept, same)
    return list(made.values())


def _sealed(key: CohortKey, cohort_id: str, sent: SentMember, identity: str) -> NewMember:
    digest = key.digest("identity", sent.route.platform, identity)
    external = None if sent.external_id is None else key.digest("external", sent.external_id)
    body = orjson.dumps({"handle": sent.handle, "external_id": sent.external_id})
    return NewMember(sent.route.platform, digest, external, key.seal(body, sealed_member_of(cohort_id, digest)))


def sealed_member_of(cohort_id: str, identity: bytes) -> str:
    """Return the context that a sealed member is bound to."""
    return f"member {identity.hex()} of {cohort_id}"


def keywords_sealed_for(cohort_id: str) -> str:
    """Return the context that the sealed keywords of a query are bound to."""
    return f"keywords of {cohort_id}"


def read_keywords(key: CohortKey, spec: QuerySpec) -> tuple[str, ...]:
    """Return the keywords of a query. Raises SealBroken."""
    return tuple(orjson.loads(key.unseal(base64.b64decode(spec.keywords), keywords_sealed_for(spec.cohort_id))))


def query_spec(sent: QueryBody, key: CohortKey, cohort_id: str, routes: PostRoutes) -> QuerySpec:
    """Validate a new query.

    Raises:
        JobInvalid, CohortPlatformUnsupported: names the first invalid field.
    """
    keywords = _keywords(sent.keywords)
    date_from = _instant("date_from", sent.date_from)
    date_to = None if sent.date_to is None else _instant("date_to", sent.date_to)
    if date_to is not None and date_to <= date_from:
        raise JobInvalid("date_to", "must be later than date_from", "Send a later time, or omit it.")
    _check_number("max_credits", sent.max_credits, 1, CREDITS_MAX)
    _check_number("max_items_per_identity", sent.max_items_per_identity, 1, ITEMS_MAX)
    _check_number("max_pages_per_identity", sent.max_pages_per_identity, 1, PAGES_MAX)
    for place, slug in enumerate(sent.platforms or ()):
        route_at(f"platforms[{place}]", slug, routes)
    sealed = key.seal(orjson.dumps(keywords), keywords_sealed_for(cohort_id))
    return QuerySpec(
        cohort_id,
        base64.b64encode(sealed).decode(),
        date_from,
        date_to,
        sent.max_items_per_identity,
        sent.max_pages_per_identity,
        tuple(sorted(set(sent.platforms or ()))),
    )


def _keywords(sent: Sequence[str]) -> list[str]:
    """Return the keywords in normalized form, without duplicates."""
    _check_number("keywords", len(sent), 1, KEYWORDS_MAX, f"must contain 1 to {KEYWORDS_MAX} keywords")
    found: dict[str, None] = {}
    for place, text in enumerate(sent):
        normal = normalized(text)
        if not normal or len(text) > KEYWORD_MAX:
            raise JobInvalid(
                f"keywords[{place}]", f"must have 1 to {KEYWORD_MAX} characters", "Send a word or a phrase."
            )
        if normal in found:
            raise JobInvalid(f"keywords[{place}]", "is a duplicate", "Send each keyword once.")
        found[normal] = None
    return list(found)


def _instant(param: str, text: str) -> float:
    try:
        return unix(text)
    except (ValueError, OverflowError) as exc:
        raise JobInvalid(param, no_instant(repr(text[:40])), "Send a time such as 2026-01-31T00:00:00Z.") from exc


def _check_number(param: str, number: int, least: int, most: int, problem: str = "") -> None:
    if not least <= number <= most:
        wanted = problem or f"must be a whole number from {least} to {most}"
        raise JobInvalid(param, wanted, f"Send {least} to {most}.")


class QueryPlan(NamedTuple):
    """A query that can be started, with its counts."""

    draft: JobDraft
    members: int
    routes: int


def plan_query(
    spec: QuerySpec, max_credits: int, members: Sequence[tuple[int, str]], prices: dict[str, int]
) -> QueryPlan:
    """Return the shards of a query over these members (number and platform), and its maximum cost.

    `prices` contains the page price of each platform that can be read. Only pages that the platform has are charged.

    Raises:
        JobInvalid: no member is on these platforms.
        CohortQueryTooDear: the query could cost more than `max_credits`.
    """
    chosen = [(number, slug) for number, slug in members if not spec.platforms or slug in spec.platforms]
    if not chosen:
        where = "on these platforms " if spec.platforms else ""
        param = "platforms" if spec.platforms else "cohort_id"
        raise JobInvalid(param, f"leaves no members {where}to read", "Add members with PUT .../members first.")
    held = sum(prices.get(slug, 0) * spec.max_pages for _, slug in chosen)
    if held > max_credits:
        raise CohortQueryTooDear(held, max_credits)
    size = max(1, SHARD_PAGES // spec.max_pages)
    numbers = [number for number, _ in chosen]
    ends = [*range(0, len(numbers), size), len(numbers)]
    names = [f"{numbers[begin]}-{numbers[end - 1]}" for begin, end in pairwise(ends)]
    path = "/v1/cohorts/{cohort_id}/queries"
    text = msgspec.json.encode(msgspec.structs.replace(spec, prices=prices)).decode()
    draft = JobDraft(KIND, text, names, held, ACCOUNT, path, prefix="cq_")
    return QueryPlan(draft, len(chosen), sum(slug in prices for _, slug in chosen))
