"""A field map reads the same values from a decoded body and from its full JSON, whatever the body."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upstreams.model import fields
from upstreams.model.archetypes import author, byline, post
from upstreams.model.errors import UnexpectedBody
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import UNDECODED, Rows, record_map
from upstreams.model.fields.readers import of

NAMES = ("id", "name", "user", "$type", "from", "_tags", "reactions", "images", "fullsize", "deleted", "created")
byline_of = record_map(byline, id=read.ident("id"), username=read.text("name", "$type"))
post_of = record_map(
    post,
    id=read.ident("id", "name"),
    url=of(lambda name, kind: name and f"{name}/{kind}", read.text("user.name"), "$type"),
    text=of(fields.joined, read.text("name"), read.html("from")),
    author=byline_of.at("user"),
    media_urls=read.each("images", read.text("fullsize", "user.name")),
    likes=read.count("reactions.id"),
    comments=read.number("reactions.from", "from"),
    deleted=read.flag("deleted"),
    published_at=read.instant("created", "reactions.created"),
    ext={"tags": read.texts("_tags"), "kind": read.text("$type"), "fixed": read.always("always")},
)
feed_of = post_of.inside("from").with_fields(pinned=read.flag("deleted"), ext={"kind": read.text("user.id")})
ROWS = Rows(post_of, "items", also=("total",))
BARE = Rows(feed_of)

SENT = {
    "id": 7,
    "name": "A name",
    "user": {"id": "u", "name": "octocat"},
    "$type": "story",
    "from": "<p>one</p><p>two</p>",
    "_tags": ["a", "", 3, "b"],
    "reactions": {"id": 3, "from": "12", "created": 0},
    "images": [{"fullsize": "https://a/1"}, {"user": {"name": "b"}}, {}],
    "deleted": False,
    "created": "2024-01-31T12:00:00.000Z",
    "skipped": {"whatever": [1, 2, {"deep": None}]},
}

USUAL = {**SENT, "_tags": ["a", "", "b"]}
"""An object in its usual form, in which a list of texts contains only texts."""

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(["2024-01-31", "2024-01-31T12:00:00Z", "12", "-3", "<b>x</b>", "1e3"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=len(NAMES))
    ),
    max_leaves=20,
)
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=len(NAMES))


def written(value: Any) -> bytes:
    """Return the JSON text. The encoder does not accept all whole numbers, so they are written as digits here."""
    if isinstance(value, dict):
        return b"{%b}" % b",".join(b"%b:%b" % (orjson.dumps(name), written(one)) for name, one in value.items())
    if isinstance(value, list):
        return b"[%b]" % b",".join(map(written, value))
    return str(value).encode() if type(value) is int else orjson.dumps(value)


def decoded(reader: Any, raw: bytes) -> Any:
    try:
        return reader.decode(raw)
    except UNDECODED:
        return orjson.loads(raw)


def test_readers_read_their_members() -> None:
    record = post_of(SENT)
    assert record == post(
        id="7",
        url="octocat/story",
        text="A name\n\none\n\ntwo",
        author=byline(id="u", username="octocat"),
        media_urls=["https://a/1", "b"],
        likes=3,
        comments=12,
        deleted=False,
        published_at="2024-01-31T12:00:00Z",
        ext={"tags": ["a", "b"], "kind": "story", "fixed": "always"},
    )
    assert list(record) == list(post(id=None, url=None, text=None, author=None))


def test_moved_and_extended_map_reads_the_right_members() -> None:
    record = feed_of({"from": SENT, "deleted": True, "user": {"id": "why"}})
    assert record == {
        **post_of(SENT),
        "flags": {
            "pinned": True,
            "deleted": False,
            "nsfw": None,
            "spoiler": None,
            **dict.fromkeys(("likes_hidden", "comments_hidden", "views_hidden")),
        },
        "ext": {"tags": ["a", "b"], "kind": "why", "fixed": "always"},
    }


def test_nested_record_without_values_is_none() -> None:
    for user in ({}, None, "octocat", [1], {"id": None, "name": ""}, {"other": 1}):
        assert post_of({**SENT, "user": user})["author"] is None


def test_records_share_no_mutable_values() -> None:
    one, other = post_of({}), post_of({})
    assert one["content"]["media_urls"] == []
    assert one["content"]["media_urls"] is not other["content"]["media_urls"]
    assert one["ext"] is not other["ext"]


@settings(max_examples=60)
@given(objects)
def test_decoded_object_gives_the_same_record_as_json(sent: Any) -> None:
    raw = written(sent)
    assert post_of.read(decoded(post_of, raw)) == post_of(orjson.loads(raw))


@settings(max_examples=40)
@given(st.lists(st.one_of(objects, values), max_size=4), values)
def test_decoded_rows_give_the_same_records_as_json(sent: list[Any], total: Any) -> None:
    page, bare = written({"items": sent, "total": total}), written([{"from": one} for one in sent])
    expected = [post_of(row) for row in orjson.loads(page)["items"] if isinstance(row, dict)]
    assert ROWS.records(decoded(ROWS, page)) == expected
    assert BARE.records(decoded(BARE, bare)) == [feed_of(row) for row in orjson.loads(bare)]


@given(values)
def test_further_members_of_a_page_are_returned(total: Any) -> None:
    raw = written({"items": [USUAL], "total": total, "more": 1})
    number = fields.number(orjson.loads(raw), "total")
    assert fields.number(ROWS.members(ROWS.decode(raw)), "total") == number


def test_usual_page_is_decoded_without_other_members() -> None:
    body = ROWS.decode(orjson.dumps({"items": [USUAL], "total": 1}))
    assert not isinstance(body, dict)
    assert not hasattr(body.items[0], "skipped")


@pytest.mark.parametrize("sent", [{}, {"items": None}, {"items": {}}, {"items": "x"}, [], 3, None])
def test_page_without_its_list_is_refused(sent: Any) -> None:
    with pytest.raises(UnexpectedBody):
        ROWS.records(decoded(ROWS, orjson.dumps(sent)))


def test_page_with_too_many_rows_is_refused() -> None:
    raw = orjson.dumps({"items": [{}] * (fields.ROWS_MAX + 1)})
    for body in (ROWS.decode(raw), orjson.loads(raw)):
        with pytest.raises(UnexpectedBody, match="expected a list of at most 1000 entries, got 1001"):
            ROWS.records(body)


def test_map_with_wrong_fields_is_refused_at_declaration() -> None:
    with pytest.raises(TypeError, match="nickname"):
        record_map(author, id=read.ident("id"), nickname=read.text("nick"))
    with pytest.raises(TypeError, match="author"):
        record_map(post, id=read.ident("id"), url=read.text("url"), text=read.text("text"))


def test_member_read_whole_and_by_members_is_refused() -> None:
    both = record_map(byline, id=read.ident("user.id"), username=of(str, "user"))
    with pytest.raises(TypeError, match="user is read as object and as value"):
        both({})
