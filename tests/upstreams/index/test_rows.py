"""The index has the same data as the packages, and the functions of a platform after its first call."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import orjson
import pytest

from tests.fakes.many_platforms import many_platforms
from tests.fakes.platform_fields import FIELDS
from upstreams.composites import load_all, load_one
from upstreams.index.reading import PackageChanged, platforms_of
from upstreams.index.writing import NotStorable, rows_of
from upstreams.model.archetypes import AUTHOR, POST_LIST, Archetype, author
from upstreams.model.calls import Get, Secret, fallback_to, single
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.loading import Later
from upstreams.model.params import Args
from upstreams.model.paths import Located, Within
from upstreams.model.sign_in import client_credentials
from upstreams.model.steps import Call


def _stored(platforms: tuple[Platform, ...]) -> Any:
    return orjson.loads(orjson.dumps(rows_of(platforms)))


_SKIPPED = frozenset({"record", "first_sources", "never", "common", "loading", "_endpoint_of_role"})


def _differences(mine: Any, real: Any, path: str) -> Iterator[str]:
    """Yield the places where the data of two values differs. A placeholder has no data."""
    if isinstance(mine, Later):
        is_same = callable(real)
    elif isinstance(mine, tuple) and isinstance(real, tuple) and len(mine) == len(real):
        is_same = type(mine) is type(real)
        for position, (one, other) in enumerate(zip(mine, real, strict=True)):
            yield from _differences(one, other, f"{path}.{position}")
    elif (is_dataclass(mine) and not isinstance(mine, Archetype)) or isinstance(mine, Located | Within):
        is_same = type(mine) is type(real)
        for name in _names_of(mine):
            yield from _differences(getattr(mine, name), getattr(real, name), f"{path}.{name}")
    else:
        is_same = mine == real
    if not is_same:
        yield f"{path}: {mine!r} instead of {real!r}"


def _names_of(value: Any) -> Iterator[str]:
    if isinstance(value, Located | Within):
        yield "arguments"
    else:
        yield from (one.name for one in fields(value) if one.name not in _SKIPPED)
    if isinstance(value, Endpoint):
        yield "unfilled"


def _parts(platform: Platform) -> dict[str | None, str]:
    return {role: part.resource for role, part in platform._endpoint_of_role.items()}


@pytest.mark.parametrize("real", [load_all(), many_platforms()], ids=["all", "many"])
def test_index_has_the_data_of_every_platform(real: tuple[Platform, ...]) -> None:
    indexed = platforms_of(_stored(real), load_one)
    assert [one.slug for one in indexed] == [one.slug for one in real]
    assert [
        line for mine, their in zip(indexed, real, strict=True) for line in _differences(mine, their, their.slug)
    ] == []


def _later_in(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Later):
        yield path
    elif isinstance(value, tuple):
        for position, one in enumerate(value):
            yield from _later_in(one, f"{path}.{position}")
    elif is_dataclass(value):
        for one in fields(value):
            yield from _later_in(getattr(value, one.name), f"{path}.{one.name}")


def test_no_placeholder_is_left_after_loading() -> None:
    """Goal: hot paths run the functions themselves. Method: load each platform, and look for placeholders."""
    indexed = platforms_of(_stored(load_all()), load_one)
    assert any(list(_later_in(one, one.slug)) for one in indexed)
    for platform in indexed:
        assert platform.loading is not None
        platform.loading.platform()
    assert [path for one in indexed for path in _later_in(one, one.slug)] == []


def test_first_call_loads_only_its_platform() -> None:
    indexed = {one.slug: one for one in platforms_of(_stored(load_all()), load_one)}
    github = indexed["github"]
    endpoint = next(one for one in github.endpoints if one.resource == "profile")
    placeholder = endpoint.read
    call: Any = next(placeholder(Args({"handle": "octocat"})))
    assert call.path == "/users/octocat"
    assert endpoint.read is not placeholder
    assert next(placeholder(Args({"handle": "octocat"}))).path == call.path  # a copy of the endpoint may still hold it
    loaded = [slug for slug, one in indexed.items() if one.loading is not None and one.loading.is_loaded]
    assert loaded == ["github"]


def test_copy_of_an_endpoint_made_before_loading_still_works() -> None:
    github = next(one for one in platforms_of(_stored(load_all()), load_one) if one.slug == "github")
    endpoint = next(one for one in github.endpoints if one.resource == "profile")
    copy = replace(endpoint, summary="A copy.")
    next(endpoint.read(Args({"handle": "octocat"})))
    call: Any = next(copy.read(Args({"handle": "octocat"})))
    assert call.path == "/users/octocat"


def test_each_index_has_its_own_web() -> None:
    """Goal: two nodes in one process do not share the caches of their pages."""
    rows = _stored(load_all())
    first, second = (next(one for one in platforms_of(rows, load_one) if one.slug == "web") for _ in range(2))
    assert first.loading is not None
    assert second.loading is not None
    assert first.loading.platform() is first.loading.platform()
    assert first.loading.platform() is not second.loading.platform()


@pytest.mark.parametrize(
    "changed",
    [
        {"sources": {"api": "https://elsewhere.example", "graphql": "https://a.example", "raw": "https://b.example"}},
        {"credentials": ("other",)},
        {"source_needs": {"api": "other"}},
        {"endpoints": ()},
    ],
)
def test_changed_package_is_refused(changed: dict[str, Any]) -> None:
    """Goal: no secret is sent to a host that the index does not name, if a package is replaced under a node."""
    real = load_all()
    indexed = platforms_of(_stored(real), lambda slug, _: replace(next(o for o in real if o.slug == slug), **changed))
    github = next(one for one in indexed if one.slug == "github")
    for _ in range(2):
        with pytest.raises(PackageChanged, match="github changed since the node started; restart the node"):
            next(github.endpoints[0].read(Args({})))


def test_unknown_kind_of_value_is_named() -> None:
    faulty: Any = {1, 2}
    endpoint = Endpoint(
        resource="posts", summary="Posts.", archetype=POST_LIST, read=lambda _args: iter(()), lacks={"at": faulty}
    )
    platform = Platform(slug="odd", title="Odd", sources={}, endpoints=(endpoint,), docs_url="")
    with pytest.raises(NotStorable, match=r"odd: endpoints\.0\.lacks\.at is a set"):
        rows_of((platform,))


def test_headers_and_sessions_by_source_are_loaded_with_the_package() -> None:
    """Goal: functions inside a mapping are placeholders too, before and after the package is loaded."""
    endpoint = Endpoint(
        resource="posts", summary="Posts.", archetype=POST_LIST, read=lambda _args: (yield Call("/posts"))
    )
    real = Platform(
        slug="odd",
        title="Odd",
        sources={"api": "https://api.example", "ads": "https://ads.example"},
        endpoints=(endpoint,),
        headers={"ads": lambda known: (("x-token", known["token"]),)},
        sessions={"ads": client_credentials("/token", names=("id", "secret"))},
        **FIELDS,
    )
    (early,) = platforms_of(_stored((real,)), lambda _slug, _before: real)
    assert isinstance(early.headers, Mapping)
    assert early.headers["ads"]({"token": "t"}) == (("x-token", "t"),)
    (late,) = platforms_of(_stored((real,)), lambda _slug, _before: real)
    next(late.endpoints[0].read(Args({})))
    assert late.headers is real.headers
    assert late.sign_in_of("ads") is real.sessions["ads"]


def test_ladder_with_a_supplier_is_stored() -> None:
    """Goal: a node knows without the package which source it calls first, and the fallback's read is loaded later."""
    record = record_map(author, id=read.ident("id"))
    endpoint = single(
        resource="profile",
        summary="One.",
        archetype=AUTHOR,
        call=Get("/me/{token}", token=Secret("token")),  # cannot be called without the token
        record=record,
        own_needs=("token",),
        fallbacks=(fallback_to(source="partner", call=Get("/profile"), record=record),),
    )
    sources = {"official": "https://official.test", "partner": "@some_interface"}
    real = Platform(slug="odd", title="Odd", sources=sources, endpoints=(endpoint,), **FIELDS)
    (early,) = platforms_of(_stored((real,)), lambda _slug, _before: real)
    (stored,) = early.endpoints
    assert (early.partners, early.credentials) == ({"partner": "some_interface"}, ("token",))
    assert (stored.own_needs, stored.fallbacks[0].needs) == (("token",), ("partner",))
    assert stored.first_sources == {"token": "official"}
    placeholder: Any = stored.fallbacks[0].read
    call = next(placeholder(Args({})))
    assert (call.source, call.path) == ("partner", "/profile")
    assert stored.fallbacks[0].read is endpoint.fallbacks[0].read
