"""Generated stand-ins: how they select calls, page lists, fail, and send bodies other than JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import pytest

from upstreams.model.params import Args
from upstreams.model.steps import Answer
from upstreams.sandbox.filling import Filling
from upstreams.sandbox.made import paging_of, routes_of
from upstreams.sandbox.site import SandboxReply, SandboxRequest, answer, by_host

ROW = {"id": "$serial", "likes": "$count"}
MADE: Mapping[str, Any] = {
    "aliases": {"mirror.example": "a.example"},
    "failures": {"missing": {"status": 410, "body": {"error": "gone: ${id}"}}},
    "calls": [
        {"call": "GET a.example/one/{id}", "body": {"id": "${id}", "number": "${id:int}", "name": "$name"}},
        {"call": "GET a.example/page/{id}", "body": {"url": "https://a.example/${id}", "title": "on ${id}"}},
        {"call": "GET a.example/search", "when": {"type": "b"}, "body": {"kind": "b"}},
        {"call": "GET a.example/search", "when": {"type": None}, "body": {"kind": "any"}},
        {"call": "POST a.example/graphql", "when": {"operation": "post"}, "body": {"id": "${variables.id}"}},
        {"call": "GET a.example/many", "rows": "items", "each": "ids", "body": {"items": [{"id": "${each}"}]}},
        {"call": "GET {instance}/api/{name*}", "body": {"host": "${instance}", "rest": "${name}"}},
        {"call": "GET {language}.wiki.example/x", "body": {"language": "${language}"}},
        {
            "call": "GET feed.example/rss",
            "type": "application/rss+xml",
            "of": 3,
            "text": ["<rss><channel>", "<title>$name &amp; co</title>", "$rows", "</channel></rss>"],
            "row": ["<item>", "<guid>$id</guid>", "<description>$html</description>", "</item>"],
        },
    ],
}
ROUTES = by_host(routes_of("made", MADE))


def ask(host: str, path: str, json: Any = None, **query: str) -> SandboxReply:
    method = "GET" if json is None else "POST"
    return answer(ROUTES, SandboxRequest(host, path, query, json=json, method=method))


def test_request_values_appear_in_the_answer() -> None:
    body = ask("a.example", "/one/7").body
    assert (body["id"], body["number"]) == ("7", 7)
    assert body == ask("a.example", "/one/7").body != ask("a.example", "/one/8").body


def test_values_in_a_url_are_escaped() -> None:
    body = ask("a.example", "/page/a%20%C3%BC").body
    assert body == {"url": "https://a.example/a%20%C3%BC", "title": "on a ü"}


def test_alias_host_answers_like_its_host() -> None:
    assert ask("mirror.example", "/one/7").body == ask("a.example", "/one/7").body


@pytest.mark.parametrize(("query", "kind"), [({"type": "b"}, "b"), ({}, "any"), ({"type": "c"}, None)])
def test_calls_on_one_path_differ_by_values(query: dict[str, str], kind: str | None) -> None:
    assert ask("a.example", "/search", **query).body.get("kind") == kind


def test_body_members_are_values() -> None:
    assert ask("a.example", "/graphql", {"operation": "post", "variables": {"id": 5}}).body == {"id": "5"}
    assert ask("a.example", "/graphql", {"operation": "other"}).status == 404


def test_each_id_has_a_row() -> None:
    assert ask("a.example", "/many", ids="7,9").body == {"items": [{"id": "7"}, {"id": "9"}]}


def test_host_parameter_matches_any_host() -> None:
    assert ask("social.example.org", "/api/v1/x").body == {"host": "social.example.org", "rest": "v1/x"}
    assert ask("de.wiki.example", "/x").body == {"language": "de"}
    assert ask("social.example.org", "/other").status == 404


def test_alias_selects_the_platform_of_a_host() -> None:
    first = {"calls": [{"call": "GET {instance}/api/{id}", "body": {"of": "first"}}]}
    call = {"call": "GET {host}/api/{id}", "body": {"of": "${host}"}}
    second = {"aliases": {"second.example": "{host}"}, "calls": [call]}
    routes = by_host((*routes_of("first", first), *routes_of("second", second)))
    for host, of in (("any.example", "first"), ("second.example", "second.example")):
        assert answer(routes, SandboxRequest(host, "/api/7", {})).body == {"of": of}


def test_request_values_select_the_platform_on_a_shared_host() -> None:
    first = {"calls": [{"call": "GET shared.example/search", "body": {"of": "first"}}]}
    own = {"call": "GET shared.example/search", "when": {"media": "sound"}, "body": {"of": "second"}}
    routes = by_host((*routes_of("first", first), *routes_of("second", {"calls": [own]})))
    for media, of in (("sound", "second"), ("text", "first")):
        assert answer(routes, SandboxRequest("shared.example", "/search", {"media": media})).body == {"of": of}


@pytest.mark.parametrize(
    ("subject", "status", "body"),
    [
        ("missing", 410, {"error": "gone: missing"}),
        ("404", 410, {"error": "gone: 404"}),
        ("is-throttled", 429, {}),
        ("broken.test", 500, {}),
    ],
)
def test_trigger_word_fails_like_the_platform(subject: str, status: int, body: Any) -> None:
    reply = ask("a.example", f"/one/{subject}")
    assert (reply.status, reply.body) == (status, body)


def test_feed_is_text_with_repeated_rows_and_escaped_values() -> None:
    reply = ask("feed.example", "/rss")
    assert reply.headers["content-type"] == "application/rss+xml"
    channel = ElementTree.fromstring(reply.body)[0]
    items = channel.findall("item")
    assert len({item.findtext("guid") for item in items}) == 3
    assert (items[0].findtext("description") or "").startswith("<p>")
    assert (channel.findtext("title") or "").endswith(" & co")


STYLES: Mapping[str, tuple[dict[str, Any], dict[str, str]]] = {
    "page": ({"ByPage": {"name": "at", "size": "n", "more": "meta.more", "total": "total"}}, {}),
    "page from 0": ({"ByPage": {"name": "at", "size": "n", "first": 0, "pages": "pages"}}, {}),
    "offset": ({"ByOffset": {"name": "at", "size": "n", "total": "total"}}, {}),
    "token": ({"ByToken": {"name": "at", "member": "next", "size": "n"}}, {}),
    "header": ({"ByToken": {"name": "at", "header": "x-next", "size": "n"}}, {}),
    "link": ({"ByLink": {"name": "at", "size": "n"}}, {}),
    "id": ({"ByLastId": {"name": "at", "size": "n"}}, {"id": "$serial"}),
    "id, oldest first": ({"ByLastId": {"name": "at", "size": "n", "newest_last": True}}, {"id": "$place"}),
    "time": ({"ByTime": {"name": "at", "size": "n"}}, {"published_at": "$tick_iso"}),
    "Unix time": ({"ByTime": {"name": "at", "size": "n", "unix": True}}, {"published_at": "$tick_iso"}),
}


@pytest.mark.parametrize("style", STYLES)
def test_list_is_paged_to_its_end(style: str) -> None:
    """Method: the paging object requests each page and finds where the next one starts."""
    named, row = STYLES[style]
    call = {"call": "GET a.example/list", "rows": "items", "paging": named}
    call["body"] = {"items": [{"n": "$place", **row}]}  # type: ignore[assignment]
    routes, pages = by_host(routes_of("made", {"calls": [call]})), paging_of(call)
    places: list[int] = []
    args = Args({"limit": 20})
    while True:
        query = {name: str(value) for name, value in pages.query(args).items() if value is not None}
        reply = answer(routes, SandboxRequest("a.example", "/list", query))
        rows = reply.body["items"]
        places += sorted(row["n"] for row in rows)
        told = {name: at(reply.body, name) for name in pages.also}
        following = pages.following(args, Answer(200, reply.headers, reply.body), told, rows)
        if following is None:
            break
        args = Args({"limit": 20}, following)
    assert places == list(range(45))


def at(body: Any, path: str) -> Any:
    for step in path.split("."):
        body = body.get(step, {})
    return body


def test_only_counts_grow_with_the_steps() -> None:
    first = answer(ROUTES, SandboxRequest("a.example", "/one/7", {}))
    assert answer(ROUTES, SandboxRequest("a.example", "/one/7", {}, steps=3)).body == first.body
    call = {"call": "GET a.example/list", "rows": "items", "body": {"items": [ROW]}}
    routes = by_host(routes_of("made", {"calls": [call]}))
    before, after = (answer(routes, SandboxRequest("a.example", "/list", {}, steps=steps)) for steps in (0, 2))
    for old, new in zip(before.body["items"], after.body["items"], strict=True):
        assert new["likes"] == old["likes"] + 2 * (1 + old["likes"] // 200)
        assert new["id"] == old["id"]
    assert after.has_grown


def test_kind_in_braces_may_be_followed_by_a_letter() -> None:
    filling = Filling({"id": "7"}, "seed")
    assert filling.fill("${$flag}x") in ("truex", "falsex")
    assert filling.fill("${$digits}") == filling.fill("$digits")
    assert filling.fill("${id}$$x") == "7$x"


def test_unknown_placeholder_names_its_place() -> None:
    with pytest.raises(LookupError, match=r"unknown placeholder `\$idx` at /login of seed"):
        Filling({}, "seed").fill({"login": "$idx"})
