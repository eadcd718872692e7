"""What the API promises about every record (spec 2.2, decisions 3). The first archetypes have their own tables here.

A promise is a function that returns whether a value is as promised. An upstream may omit any value, so None is accepted
everywhere except for objects and lists that are always present.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from gateway.docs.schemas import schema_of
from upstreams.model.archetypes import Archetype

Promise = Callable[[Any], bool]
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
_INTEGER_MAX = 2**64


def words(value: Any) -> bool:
    """Return whether a value is a text or null.

    An empty text is not allowed, because null means that there is no text.
    """
    return value is None or (isinstance(value, str) and value != "")


def truth(value: Any) -> bool:
    """Return whether a value is a boolean or null."""
    return value is None or isinstance(value, bool)


def points(value: Any) -> bool:
    """Return whether a value is a whole number or null. It may be negative, as votes may be."""
    return value is None or (type(value) is int and abs(value) < _INTEGER_MAX)


def count(value: Any) -> bool:
    """Return whether a value is a count or null."""
    return value is None or (type(value) is int and 0 <= value < _INTEGER_MAX)


def rate(value: Any) -> bool:
    """Return whether a value is a share between 0 and 1, or null."""
    return value is None or (isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value <= 1)


def moment(value: Any) -> bool:
    """Return whether a value is a UTC time or null."""
    return value is None or (isinstance(value, str) and _INSTANT.fullmatch(value) is not None)


def each(promise: Promise) -> Promise:
    """Promise a list that is always present, and whose entries are as promised."""
    return lambda value: isinstance(value, list) and all(map(promise, value))


def maybe(promise: Promise) -> Promise:
    """Promise a value that is null or as promised."""
    return lambda value: value is None or promise(value)


def tells(value: Any) -> bool:
    """Return whether a value is a text that is not empty."""
    return isinstance(value, str) and words(value)


def extras(value: Any) -> bool:
    """Return whether a value is a valid `ext`, which contains named scalars and lists of texts."""
    return isinstance(value, dict) and all(map(_extra, value.values()))


def _extra(value: Any) -> bool:
    return words(value) or truth(value) or points(value) or each(tells)(value)


def fields(**promised: Promise) -> Promise:
    """Promise an object with exactly these members."""

    def kept(value: Any) -> bool:
        assert isinstance(value, dict), f"{value!r} is not an object"
        assert value.keys() == promised.keys(), f"{value.keys() ^ promised.keys()} are unexpected or missing"
        for name, promise in promised.items():
            assert promise(value[name]), f"{name} is {value[name]!r}"
        return True

    return kept


BYLINE = fields(id=words, username=words, display_name=words, avatar_url=words, verified=truth, url=words)
AUTHOR = fields(
    id=words,
    username=words,
    display_name=words,
    avatar_url=words,
    bio=words,
    verified=truth,
    followers=count,
    following=count,
    posts_count=count,
    likes_count=points,
    url=words,
    private=truth,
    joined_at=moment,
    location=words,
    external_url=words,
    ext=extras,
)
POST = fields(
    id=words,
    url=words,
    content=fields(text=words, media_urls=each(tells), thumbnail_url=words, duration_seconds=count),
    author=maybe(BYLINE),
    engagement=fields(views=count, likes=points, comments=count, shares=count, saves=count),
    flags=fields(pinned=truth, deleted=truth, nsfw=truth, spoiler=truth),
    published_at=moment,
    ext=extras,
)


def comment(value: Any) -> bool:
    """Promise a comment with its replies. A deleted comment has no text and no author."""
    assert fields(
        id=words,
        url=words,
        parent_id=words,
        post_id=words,
        text=words,
        author=maybe(BYLINE),
        engagement=fields(likes=points, replies=count),
        flags=fields(pinned=truth, deleted=truth),
        published_at=moment,
        replies=each(comment),
    )(value)
    return value["flags"]["deleted"] is not True or (value["text"] is None and value["author"] is None)


REPOSITORY = fields(
    id=words,
    url=words,
    full_name=words,
    name=words,
    owner=maybe(fields(username=words, avatar_url=words, type=words)),
    description=words,
    homepage=words,
    language=words,
    topics=maybe(each(tells)),
    license=words,
    stars=count,
    forks=count,
    watchers=count,
    open_issues=count,
    size_kb=count,
    default_branch=words,
    archived=truth,
    fork=truth,
    created_at=moment,
    updated_at=moment,
    pushed_at=moment,
)
RELEASE = fields(
    id=words,
    url=words,
    tag=words,
    name=words,
    text=words,
    prerelease=truth,
    author=words,
    published_at=moment,
    ext=extras,
)
ARTICLE = fields(
    id=words,
    url=words,
    title=words,
    text=words,
    description=words,
    image_url=words,
    language=words,
    updated_at=moment,
    ext=extras,
)
COMPUTED = fields(engagement_rate=rate, language=words, content_category=tells, estimated_reach=count)
LEG = fields(
    endpoint=tells,
    source=tells,
    rung=tells,
    rung_index=count,
    status=tells,
    credits_used=count,
    latency_ms=count,
    error=words,
)
DOSSIER = fields(
    repository=REPOSITORY,
    article=maybe(ARTICLE),
    releases=maybe(each(RELEASE)),
    top_issues=maybe(each(POST)),
    legs=each(LEG),
    coverage=rate,
    partial_failure=truth,
)
VELOCITY = fields(
    author=AUTHOR,
    velocity=maybe(
        fields(
            repos_seen=count,
            repos_pushed_30d=count,
            repos_pushed_365d=count,
            own_repos_created_365d=count,
            own_repos_stars=count,
            last_pushed_at=moment,
        )
    ),
    legs=each(LEG),
    coverage=rate,
    partial_failure=truth,
)

ROWS: Mapping[str, Promise] = {
    "Author": fields(author=AUTHOR, computed=COMPUTED),
    "Post": fields(post=POST, computed=COMPUTED),
    "Comment": fields(comment=comment),
    "Repository": fields(repository=REPOSITORY),
    "Release": fields(release=RELEASE),
    "Article": fields(article=ARTICLE),
    "RepositoryDossier": DOSSIER,
    "ProfileVelocity": VELOCITY,
}
"""The promise about `data`, or about each of its items, by archetype name without the suffix `List`."""


@cache
def validator(archetype: Archetype) -> Draft202012Validator:
    """Return a validator for the schema that the node publishes. It also checks formats."""
    return Draft202012Validator(schema_of(archetype, ""), format_checker=Draft202012Validator.FORMAT_CHECKER)


def check_data(archetype: Archetype, data: dict[str, Any]) -> None:
    """Check `data` against the promise about its archetype: the table here, or else the published schema."""
    told = {name: value for name, value in data.items() if name != "_warnings"}
    assert each(tells)(data.get("_warnings", []))
    assert "total" not in told or (type(told["total"]) is int and told["total"] >= 0), f"total is {told['total']!r}"
    promise = ROWS.get(archetype.name.removesuffix("List"))
    if promise is None:
        validator(archetype).validate(data)
        assert plain_value(told)
    elif archetype.many:
        assert told.keys() <= {"items", "total"}
        assert each(promise)(told["items"])
    else:
        assert promise(told)


def plain_value(value: Any) -> bool:
    """Return whether every JSON parser reads this value in the same way, and whether it contains no empty text."""
    if isinstance(value, dict | list):
        return all(map(plain_value, value.values() if isinstance(value, dict) else value))
    return words(value) if isinstance(value, str) else not isinstance(value, int | float) or abs(value) < _INTEGER_MAX
