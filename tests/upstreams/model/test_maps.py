"""A field map reads the same values from a decoded body and from its full JSON, whatever the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upstreams.model import fields
from upstreams.model.archetypes import author, byline, post
from upstreams.model.errors import DeclarationError, UnexpectedBody
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


ID = read.ident("id")
FAULTS: dict[str, tuple[Callable[[], object], str]] = {
    "an unknown field": (
        lambda: record_map(author, id=ID, usernam=read.text("name")),
        "unknown field of `author`: `usernam`. Did you mean `username`?",
    ),
    "a missing field": (
        lambda: record_map(post, id=ID, url=read.text("url"), text=read.text("text")),
        "`post` needs a reader for its field `author`",
    ),
    "a name in place of a reader": (
        lambda: record_map(author, id=ID, username="name"),  # type: ignore[arg-type]
        "field `username` needs a reader, such as `text(...)`, but it is `'name'`",
    ),
    "a name in place of a reader in ext": (
        lambda: record_map(author, id=ID, ext={"kind": "kind"}),  # type: ignore[dict-item]
        "field `kind` needs a reader, such as `text(...)`, but it is `'kind'`",
    ),
    "an empty name": (lambda: Rows(byline_of, "data..items"), "`data..items` must be names of members"),
    "an index in a path": (lambda: Rows(byline_of, "data[0]"), "`data[0]` must be names of members"),
    "members beside rows without a path": (
        lambda: Rows(byline_of, also=("total",)),
        "the body is the list of rows, so it has no member `total`; set `at`",
    ),
}


@pytest.mark.parametrize(("declare", "message"), FAULTS.values(), ids=FAULTS)
def test_fault_is_refused_at_declaration(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        declare()
    assert message in str(refusal.value)


AS_TWO_KINDS = "is read as {} and as {}; read a member that can be both with `either`"
COMPILED_FAULTS: dict[str, tuple[dict[str, read.Reader], str]] = {
    "object, then value": (
        {"id": read.ident("user.id"), "username": of(str, "user")},
        f"map of `byline`: member `user` {AS_TWO_KINDS.format('an object', 'a value')}",
    ),
    "text, then object": (
        {"id": read.text("user"), "username": read.text("user.name")},
        f"map of `byline`: member `user` {AS_TWO_KINDS.format('a value', 'an object')}",
    ),
    "object, then text, below another": (
        {"id": read.text("post.user.id"), "username": read.text("post.user")},
        f"map of `byline`: member `post.user` {AS_TWO_KINDS.format('an object', 'a value')}",
    ),
    "list, then object": (
        {"id": read.first("users", read.ident("id")), "username": read.text("users.name")},
        f"map of `byline`: member `users` {AS_TWO_KINDS.format('a list of objects', 'an object')}",
    ),
    "kinds that only another field mixes": (
        {
            "id": read.either(read.text("id"), read.text("id.text")),
            "username": read.text("id", "user.id"),
            "url": of(str, "user"),
        },
        f"map of `byline`: member `user` {AS_TWO_KINDS.format('an object', 'a value')}",
    ),
    "with and without a question mark": (
        {"id": read.text("media.id"), "username": read.text("media?.name")},
        "map of `byline`: member `media` is read both as `media` and as `media?`; use one of them",
    ),
    "an empty name": (
        {"id": read.ident("id"), "username": read.text("user..name")},
        "map of `byline`: field `username`: the path of a member has an empty name",
    ),
    "no name": ({"id": read.ident("id"), "username": read.text()}, "map of `byline`: field `username`: ValueError"),
    "code that is not Python": (
        {"id": read.ident("id"), "username": read.written("{0} or or", read.text("name"))},
        "map of `byline`: SyntaxError: invalid syntax",
    ),
}


@pytest.mark.parametrize(("readers", "message"), COMPILED_FAULTS.values(), ids=COMPILED_FAULTS)
def test_fault_of_readers_is_refused_when_compiled(readers: dict[str, read.Reader], message: str) -> None:
    """The error is the same for each way to compile the map."""
    faulty = record_map(byline, **readers)
    compiling: tuple[Callable[[], object], ...] = (
        faulty.compile, lambda: faulty({}), lambda: faulty.decode(b"{}"), Rows(faulty, "items").compile,
    )  # fmt: skip
    for work in compiling:
        with pytest.raises(DeclarationError) as refusal:
            work()
        assert message in str(refusal.value)


def test_row_read_by_a_function_has_no_decoder() -> None:
    with pytest.raises(DeclarationError, match="only the rows of a map are decoded"):
        Rows(lambda row: row, "items").decode(b"{}")


def test_other_member_with_the_name_of_the_rows_is_refused() -> None:
    with pytest.raises(DeclarationError, match="member `items` is read as a list of objects and as a value"):
        Rows(byline_of, "items", also=("items",)).compile()


by_name_of = record_map(byline, id=read.always(None), username=read.text("user"))
mixed_of = record_map(
    post,
    id=read.either(read.ident("id"), read.ident("id.id")),
    url=read.either(read.text("from"), read.first("from", read.text("name")), read.text("from.name", "from.$type")),
    text=read.either(read.text("name"), read.gathered(read.texts("name")), read.text("name.user.name")),
    author=read.either(by_name_of.here(), byline_of.at("user")),
    media_urls=read.each("images", read.either(read.text("fullsize"), read.text("fullsize.name"))),
    likes=read.either(read.count("reactions"), read.count("reactions.id", "reactions.from")),
    ext={"user": read.text("user"), "user_id": read.ident("user.id")},
)


def test_either_reads_a_text_or_an_object() -> None:
    read_author = [mixed_of({"user": user})["author"] for user in ("octocat", {"id": 7, "name": "octocat"}, [1], None)]
    assert read_author == [byline(id=None, username="octocat"), byline(id="7", username="octocat"), None, None]
    decoded_author = [
        mixed_of.read(mixed_of.decode(orjson.dumps({"user": user})))["author"]
        for user in ("octocat", {"name": "octocat"})
    ]
    assert decoded_author == [byline(id=None, username="octocat"), byline(id=None, username="octocat")]


def test_member_of_an_either_may_be_read_by_other_fields() -> None:
    """An `either` says that the member may be of both kinds, so the order of the fields does not matter."""
    assert mixed_of({"user": "ada"})["ext"] == {"user": "ada", "user_id": None}
    assert mixed_of({"user": {"id": 7}})["ext"] == {"user": None, "user_id": "7"}
    reversed_of = record_map(
        byline,
        **dict(
            reversed(
                {
                    "id": read.ident("user.id"),
                    "username": read.either(read.text("user"), read.text("user.name")),
                }.items()
            )
        ),
    )
    assert reversed_of({"user": {"id": 7, "name": "ada"}}) == byline(id="7", username="ada")


def test_member_that_is_not_in_an_either_keeps_its_type() -> None:
    """The decoder still creates only the members that are read of an object that no `either` mixes."""
    found = mixed_of.decode(orjson.dumps({"user": {"id": 1, "other": 2}, "images": [{"fullsize": "x", "other": 3}]}))
    assert found.user == {"id": 1, "other": 2}
    assert not hasattr(found.images[0], "other")


def test_field_of_an_either_is_unfilled_if_all_its_records_lack_it() -> None:
    assert {"author.display_name", "author.url"} <= mixed_of.unfilled
    assert not {"author.id", "author.username", "author"} & mixed_of.unfilled


@settings(max_examples=150)
@given(objects)
def test_decoder_and_json_agree_on_members_of_several_kinds(sent: Any) -> None:
    raw = written(sent)
    assert mixed_of.read(decoded(mixed_of, raw)) == mixed_of(orjson.loads(raw))


@settings(max_examples=60)
@given(st.lists(st.one_of(objects, values), max_size=4), values)
def test_decoder_and_json_agree_on_rows_with_members_of_several_kinds(sent: list[Any], total: Any) -> None:
    rows = Rows(mixed_of, "items", also=("total",))
    raw = written({"items": sent, "total": total})
    expected = [mixed_of(row) for row in orjson.loads(raw)["items"] if isinstance(row, dict)]
    assert rows.records(decoded(rows, raw)) == expected
