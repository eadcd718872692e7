"""Records of servers that differ from the usual ones, read through a whole node."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import orjson
import pytest

from tests.cases.files import CASES
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer

ULID: Final = orjson.loads((CASES / "mastodon_ulid.json").read_bytes())
UNKNOWN_MEDIA: Final = orjson.loads((CASES / "mastodon_unknown_media.json").read_bytes())
IDS: Final = (
    "01HB2Z6K9W3C5D7F8G1J4M6N8P",  # GoToSocial
    "AjBpFdwrvbYqhEcYbA",  # Pleroma
    "9tzz5hqm2p",  # Sharkey
    "0191e7a0-3f5c-7bd2-8a0e-6a1f5c2d9b44",  # Mitra
    "103270115826048975",  # Mastodon
)
BAD_IDS: Final = ("a/b", "../accounts/1", "a?b", "a#b", "a b", "a%2Fb", "x" * 300, ".", "..", "-")


def status(id_: str, host: str = "toot.example.org") -> dict[str, Any]:
    account = {**ULID["account"], "id": f"{id_}A"}
    return {**ULID, "id": id_, "account": account, "url": f"https://{host}/@baker/statuses/{id_}"}


def instance(host: str, *statuses: dict[str, Any]) -> Callable[[str], ScriptedAnswer | None]:
    """A server with Mastodon's API that has only these statuses and their accounts."""
    answers: dict[str, object] = {}
    for one in statuses:
        answers[f"{host}/api/v1/statuses/{one['id']}"] = one
        answers[f"{host}/api/v1/statuses/{one['id']}/context"] = {"ancestors": [], "descendants": [one]}
        answers[f"{host}/api/v1/accounts/{one['account']['id']}"] = one["account"]
        answers[f"{host}/api/v1/accounts/{one['account']['id']}/statuses"] = [one]

    def script(asked: str) -> ScriptedAnswer | None:
        found = answers.get(asked.partition("?")[0])
        return json_answer({"error": "Record not found"}, 404) if found is None else json_answer(found)

    return script


async def read(node: OpenNode, target: str, expected: int = 200) -> Any:
    answer = await node.get(target)
    assert answer.status == expected, (target, answer.json)
    return answer.json["data"] if expected == 200 else answer.json


async def test_sample_ids_may_have_letters_and_numbers(tmp_path: Path) -> None:
    host = "mastodon-ulid.example.org"
    async with open_test_node(tmp_path) as node:
        node.upstream.script = instance(host, ULID)
        url = quote(ULID["url"], safe="")
        for target in (
            f"/v1/mastodon/post?id={ULID['id']}&instance={host}",
            f"/v1/mastodon/post?url={url}",
            f"/v1/prism/lookup?url={url}",
        ):
            data = await read(node, target)
            assert data["post"]["id"] == ULID["id"]
            assert data["post"]["author"]["id"] == ULID["account"]["id"]
        profile = await read(node, f"/v1/mastodon/profile?user_id={ULID['account']['id']}&instance={host}")
        assert profile["author"]["id"] == ULID["account"]["id"]


async def test_ids_of_mastodon_compatible_servers_are_accepted(tmp_path: Path) -> None:
    host = "toot.example.org"
    async with open_test_node(tmp_path) as node:
        node.upstream.script = instance(host, *map(status, IDS))
        for id_ in IDS:
            where = f"instance={host}"
            assert (await read(node, f"/v1/mastodon/post?id={id_}&{where}"))["post"]["id"] == id_
            (reply,) = (await read(node, f"/v1/mastodon/post/comments?id={id_}&{where}"))["items"]
            assert reply["comment"]["post_id"] == id_
            (post,) = (await read(node, f"/v1/mastodon/profile/posts?user_id={id_}A&{where}"))["items"]
            assert post["post"]["id"] == id_
            for path in ("@baker/statuses", "statuses", "users/baker/statuses", "@a/posts", "notice"):
                url = quote(f"https://{host}/{path}/{id_}", safe="")
                assert (await read(node, f"/v1/mastodon/post?url={url}"))["post"]["id"] == id_


@pytest.mark.critical
async def test_invalid_id_is_rejected_before_any_call(tmp_path: Path) -> None:
    targets = (("mastodon/post?id=", "id"), ("mastodon/profile?user_id=", "user_id"))
    hosts = ("", "&instance=toot.example.org")
    async with open_test_node(tmp_path) as node:
        for id_, (target, param), host in product((*BAD_IDS, "lookup", "verify_credentials"), targets, hosts):
            answer = await read(node, f"/v1/{target}{quote(id_, safe='')}{host}", 400)
            assert answer["error"]["details"]["param"] == param
        assert node.upstream.requests == []
        assert await node.money() == (CREDITS, 0)


OTHER, SMALL = "https://c.example.org/b.png", "https://c.example.org/s.png"
MEDIA: Final = (
    (UNKNOWN_MEDIA["media_attachments"], ["https://other.example.org/a.jpg"], None),
    ([{"url": "/a.png", "preview_url": "/b.png", "remote_url": None}], [], None),
    ([{"url": None, "preview_url": None, "remote_url": OTHER}], [OTHER], None),
    ([{"url": "//c.example.org/a.png", "preview_url": "javascript:x"}], [], None),
    ([{"url": "/a.png"}, {"url": OTHER, "preview_url": SMALL}], [OTHER], SMALL),
)
"""Attachments, and the addresses and the thumbnail that are returned."""


async def test_media_addresses_are_absolute(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for number, (media, urls, thumbnail) in enumerate(MEDIA):
            host = f"media{number}.example.org"
            node.upstream.script = instance(host, {**UNKNOWN_MEDIA, "media_attachments": media})
            content = (await read(node, f"/v1/mastodon/post?id=6&instance={host}"))["post"]["content"]
            assert (content["media_urls"], content["thumbnail_url"]) == (urls, thumbnail), media


async def test_hosts_may_have_underscores(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        host = "my_toot.example.org"
        node.upstream.script = instance(host, status("6", host))
        assert (await read(node, f"/v1/mastodon/post?id=6&instance={host}"))["post"]["id"] == "6"
        assert (await read(node, f"/v1/mastodon/post?url=https://{host}/@baker/6"))["post"]["id"] == "6"
        node.upstream.script = lambda _asked: None
        for host in ("my_tube.example.org", "_a.example.org", "a.my_host.example.org"):
            await read(node, f"/v1/peertube/video?id=9c9de5e8-0a1e-484a-b099-e80766180a6d&instance={host}")
            assert node.upstream.requests[-1].startswith(f"{host}/api/v1/videos/")


@pytest.mark.critical
async def test_underscores_do_not_allow_private_hosts(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for host in ("a_b.internal", "a_b.localhost", "a_b", "a_b.local", "a.b_c", "_", "a_b_127.0.0.1", "my_host.lan"):
            for target in ("mastodon/post?id=6", "peertube/video?id=9c9de5e8-0a1e-484a-b099-e80766180a6d"):
                answer = await read(node, f"/v1/{target}&instance={quote(host)}", 400)
                assert answer["error"]["details"]["param"] == "instance"
            await read(node, f"/v1/web/scrape?url=https://{host}/", 400)
        assert node.upstream.requests == []
        assert await node.money() == (CREDITS, 0)


GITHUB: Final = ("/v1/github/repo", "python-trio/trio")
GIT_ADDRESSES: Final = {
    "git@github.com:python-trio/trio.git": GITHUB,
    "git@github.com:python-trio/trio": GITHUB,
    "ssh://git@github.com/python-trio/trio.git": GITHUB,
    "ssh://git@github.com:22/python-trio/trio.git": GITHUB,
    "git://github.com/python-trio/trio.git": GITHUB,
    "git+ssh://git@github.com/python-trio/trio.git": GITHUB,
    "git+https://github.com/python-trio/trio.git": GITHUB,
    "`git@GitHub.com:python-trio/trio.git`": GITHUB,
    "https://github.com/python-trio/trio.git": GITHUB,
    "git@gitlab.com:gitlab-org/cli.git": ("/v1/gitlab/repo", "gitlab.com/gitlab-org/cli"),
}


async def test_lookup_accepts_git_addresses(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for address, (endpoint, value) in GIT_ADDRESSES.items():
            target = f"/v1/prism/lookup?url={quote(address, safe='')}"
            resolved = (await read(node, f"{target}&dry_run=1"))["resolved"]
            assert (resolved["endpoint"], resolved["params"]) == (endpoint, {"url": value})
            assert (await read(node, target))["repository"]["url"] is not None


@pytest.mark.critical
async def test_lookup_rejects_unsupported_git_addresses(tmp_path: Path) -> None:
    private = ("git@127.0.0.1:a/b", "git@localhost:a/b.git", "git@a_b.internal:a/b.git")
    wrong = ("ssh://git@github.com:2222/a/b", "root@github.com:a/b", "git@x@github.com:a/b", "git@github.com:")
    async with open_test_node(tmp_path) as node:
        for address in (*private, *wrong):
            await read(node, f"/v1/prism/lookup?url={quote(address, safe='')}", 400)
        assert node.upstream.requests == []


def topic(first: int, count: int, ids_begin: int) -> dict[str, Any]:
    """Return a topic of `count` posts that includes the first ones. Its list of ids starts at `ids_begin`."""
    posts = [{"id": 500 + n, "post_number": n, "topic_id": 7, "cooked": f"<p>{n}</p>"} for n in range(1, first + 1)]
    return {"post_stream": {"posts": posts, "stream": [*range(ids_begin, ids_begin + count)]}}


@pytest.mark.parametrize("ids_begin", [501, 1], ids=["same_ids", "other_ids"])
async def test_posts_included_in_a_discourse_topic_are_not_requested_again(ids_begin: int, tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:

        def script(asked: str) -> ScriptedAnswer | None:
            if asked.startswith("forum.example.org/t/7.json"):
                return json_answer(topic(20, 22, ids_begin))
            wanted = [int(one.rpartition("=")[2]) for one in asked.partition("?")[2].split("&")]
            return json_answer(
                {"post_stream": {"posts": [{"id": one, "post_number": one, "topic_id": 7} for one in wanted]}}
            )

        node.upstream.script = script
        target = "/v1/discourse/post/comments?id=7&host=forum.example.org"
        assert len((await read(node, f"{target}&limit=19"))["items"]) == 19
        assert node.upstream.requests == ["forum.example.org/t/7.json"]
        assert len((await read(node, f"{target}&limit=20"))["items"]) == 20
        last = str(ids_begin + 20)
        assert node.upstream.requests[2:] == [f"forum.example.org/t/7/posts.json?post_ids%5B%5D={last}"]
