"""The shape of an archetype's responses matches what the archetype's constructors return."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from gateway.calls.shaping import shape as shape_answer
from scheduler.monitors.metrics.paths import names_of, value_at
from scheduler.monitors.metrics.shapes import ROW, shape_of
from upstreams.model import archetypes
from upstreams.model.archetypes import ARCHETYPES
from upstreams.model.steps import Leg, Missing, Page, Single

KNOWN = list(ARCHETYPES.values())
FIXED = [archetype for archetype in KNOWN if archetype.key]
NUMBERS = {
    "Author": "author.followers author.following author.posts_count author.likes_count "
    "computed.engagement_rate computed.estimated_reach",
    "Post": "post.content.duration_seconds post.engagement.views post.engagement.likes post.engagement.comments "
    "post.engagement.shares post.engagement.saves computed.engagement_rate computed.estimated_reach",
    "CommentList": "items[].comment.engagement.likes items[].comment.engagement.replies total",
    "Repository": "repository.stars repository.forks repository.watchers repository.open_issues repository.size_kb",
    "ReleaseList": "total",
    "Track": "track.duration_seconds track.plays track.likes",
    "Seller": "seller.price.current seller.price.shipping seller.price.total "
    "seller.rating.value seller.rating.max seller.rating.count",
    "Audience": "",
    "Article": "",
}


OPEN = {"WebPage": {"extraction"}, "WebPageList": {"extraction"}, "GatheredCommentList": {"params"}}
"""Open fields of only these archetypes: values of a client's schema, and an endpoint's own parameters."""


def emptiest(constructor: Callable[..., dict[str, object]]) -> dict[str, object]:
    """Return the record with nothing but an id, if the archetype has one."""
    params = inspect.signature(constructor).parameters
    required = [name for name, param in params.items() if param.default is param.empty]
    known = {"id": "1"} if "id" in params else {}
    return constructor(**{**dict.fromkeys(required), **known})


@pytest.mark.parametrize("name", NUMBERS)
def test_shape_contains_the_numbers_of_an_archetype(name):
    shape = shape_of(next(archetype for archetype in KNOWN if archetype.name == name))
    assert {path for path, kind in shape.kinds.items() if kind == "number"} == set(NUMBERS[name].split())


@pytest.mark.parametrize("name", ["Author", "Post"])
def test_list_has_the_numbers_of_its_rows_and_a_total(name):
    single, many = (shape_of(next(found for found in KNOWN if found.name == each)) for each in (name, f"{name}List"))
    assert {path.removeprefix(ROW): kind for path, kind in many.kinds.items() if path.startswith(ROW)} == single.kinds
    assert many.kinds["total"] == "number"
    assert "total" not in single.kinds


@pytest.mark.parametrize("archetype", FIXED, ids=lambda archetype: archetype.name)
def test_shape_paths_match_shaped_responses(archetype):
    """Goal: shapes and responses cannot diverge.

    Method: compare with the shaped emptiest record. Fields inside empty ones are not checked.
    """
    record, beside = emptiest(archetype.make), emptiest(archetype.beside) if archetype.beside else {}
    legs = (Leg("hackernews/story", Missing("it is away")),) if archetype.has_legs else ()
    result = Page([record], total=1, legs=legs, beside=beside) if archetype.many else Single(record, legs=legs)
    data = shape_answer(archetype, result, lambda _state: "").data
    shape = shape_of(archetype)
    row = data["items"][0] if archetype.many else data
    for path in shape.kinds.keys() | shape.open:
        names = names_of(path)
        holder = value_at(row if path.startswith(ROW) or not archetype.many else data, names[:-1])
        assert holder is None or names[-1] in holder
    assert set(row) == {names_of(path)[0] for path in shape.kinds if not archetype.many or path.startswith(ROW)}


@pytest.mark.parametrize("archetype", FIXED, ids=lambda archetype: archetype.name)
def test_only_undeclared_fields_are_open(archetype):
    assert {path.rpartition(".")[2] for path in shape_of(archetype).open} <= {"ext", "owner"} | OPEN.get(
        archetype.name, set()
    )


@pytest.mark.parametrize("archetype", [one for one in KNOWN if one.many], ids=lambda archetype: archetype.name)
def test_only_posts_comments_and_authors_have_a_default_row_key(archetype):
    """Goal: a list of other records must name its key (spec 2.6). A result's author does not identify the result."""
    row = {archetype.key} if archetype.key else set(archetype.make.__annotations__)
    rows = [one for one in ("post", "comment", "author") if one in row] if "id" not in row else []
    assert shape_of(archetype).row_key == (f"{rows[0]}.id" if rows else None)


def test_composite_paths_begin_with_their_part():
    shape = shape_of(archetypes.DOSSIER)
    assert shape.kinds["repository.stars"] == "number"
    assert shape.kinds["releases"] == "array"


def test_unfilled_paths_are_not_in_the_shape():
    shape = shape_of(archetypes.AUTHOR_LIST, frozenset({"followers", "total"}))
    gone = {"items[].author.followers", "items[].computed.engagement_rate", "items[].computed.estimated_reach", "total"}
    assert shape.never == gone
    assert shape_of(archetypes.AUTHOR_LIST).kinds.keys() - shape.kinds.keys() == gone


def test_paths_inside_an_open_object_are_open():
    shape = shape_of(archetypes.POST_LIST)
    assert shape.is_open_at("items[].post.ext.score")
    assert shape.is_open_at("items[].post.ext.a.b")
    assert not shape.is_open_at("items[].post.ext")
    assert not shape.is_open_at("items[].post.extra.score")
