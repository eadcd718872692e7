"""Addresses of known but unsupported platforms are reported as unsupported, and no server is tried for them."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from tests.fakes.feeding import post
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.spec.rows import CREDENTIALS, ENVIRON, ROWS, Row
from upstreams.composites import load_all
from upstreams.composites.addresses import SHORT, Addresses
from upstreams.guard.known_hosts import KNOWN_HOSTS, owner_of
from upstreams.model.errors import InvalidArgument

ADDRESSES: Final = (
    "https://x.com/jack/status/20",
    "https://x.com/@jack",
    "https://mobile.twitter.com/jack/status/20",
    "https://www.threads.net/@zuck",
    "https://www.threads.com/@zuck/post/CuW6_IHOQdX",
    "https://www.nytimes.com/2024/05/06/world/europe/a.html",
    "https://www.reddit.com/r/python/comments/abc123/title/",
    "https://old.reddit.com/r/python",
    "https://www.instagram.com/p/CuW6/",
    "https://www.facebook.com/zuck/posts/1",
    "https://medium.com/@a/1234567890",
    "https://bitbucket.org/owner/name",
    "https://codeberg.org/owner/name",
    "https://huggingface.co/owner/name",
    "https://www.linkedin.com/in/a",
    "https://www.pinterest.co.uk/pin/1/",
    "https://X.COM:443/@jack",
    "https://www.foxnews.com/world/a",
    "https://a.wordpress.com/2020/x",
    "https://imgur.com/gallery/a",
    "git@bitbucket.org:owner/name.git",
)
LIKE_OTHERS: Final = "{}/@jack {}/@jack/123456 {}/owner/name {}/t/topic/5 {}/c/name {}/post/5 {}/w/abc {}/u/jack"


async def assert_unsupported(node: OpenNode, target: str) -> None:
    answer = await node.get(target)
    error = answer.json["error"]
    assert (answer.status, answer.json["credits_used"]) == (400, 0), answer.json
    assert (error["type"], error["details"]["reason"], error["details"]["param"]) == (
        "INVALID_REQUEST",
        "unsupported",
        "url",
    )
    assert "not supported" in error["message"]


async def test_url_of_a_known_platform_is_unsupported_everywhere(tmp_path: Path) -> None:
    """A lookup, a dry run, a walk and each batch return a 400 or an `unsupported` row, for free and without a call."""
    async with open_test_node(tmp_path, limits={"requests_per_minute": 5_000}) as node:
        for url in ADDRESSES:
            sent = quote(url, safe="")
            for target in (f"lookup?url={sent}", f"lookup?url={sent}&dry_run=1", f"comments?url={sent}"):
                await assert_unsupported(node, f"/v1/prism/{target}")
        for batch in ("post-stats", "profiles", "comment-lookup"):
            answer = await post(node, f"/v1/prism/{batch}", {"urls": ADDRESSES})
            assert answer.status == 200, answer.json
            assert [row["status"] for row in answer.json["data"]["results"]] == ["unsupported"] * len(ADDRESSES)
            assert answer.json["credits_used"] == 0
        assert node.upstream.requests == []
        assert await node.money() == (CREDITS, 0)
        await node.assert_sound()


def test_no_address_form_at_a_known_host_leads_to_another_platform() -> None:
    platforms = load_all()
    addresses = Addresses(platforms)
    own = {host for platform in platforms for host in platform.hosts}
    for known in KNOWN_HOSTS:
        if known in SHORT or any(known == one or known.endswith(f".{one}") for one in own):
            continue
        for url in LIKE_OTHERS.replace("{}", f"https://www.{known}").split():
            with pytest.raises(InvalidArgument) as refused:
                addresses.find(url)
            assert refused.value.reason == "unsupported"


def by_id(row: Row, **more: str) -> str:
    """Return the example request of an endpoint, with an id in place of a URL."""
    examples = {param.name: param.example for param in row.endpoint.params}
    others = {group[0]: examples[group[0]] for group in _without_url(row)}
    return row.target(**{"url": None, **others, **more})


def _without_url(row: Row) -> list[tuple[str, ...]]:
    groups = [tuple(name for name in group if name != "url") for group in row.endpoint.one_of if "url" in group]
    return [group for group in groups if group]


async def test_known_host_is_not_a_server_of_any_software(tmp_path: Path) -> None:
    """Every parameter that takes a server's host is checked, by declaration."""
    takers = [(row, param.name) for row in ROWS for param in row.endpoint.params if param.is_host]
    assert {row.platform.slug for row, _ in takers} >= {"mastodon", "lemmy", "peertube", "discourse", "gitlab"}
    async with open_test_node(tmp_path, environ=ENVIRON, upstreams=CREDENTIALS) as node:
        for row, param in takers:
            for host in ("x.com", "www.reddit.com"):
                answer = await node.get(by_id(row, **{param: host}))
                assert (answer.status, answer.json["credits_used"]) == (400, 0), (row.id, answer.json)
                assert answer.json["error"]["details"]["param"] == param
        assert node.upstream.requests == []
        assert await node.money() == (CREDITS, 0)


@pytest.mark.parametrize(
    "host", ["notx.com", "x.com.example.org", "myreddit.com", "example.org", "net", "com", "discuss.huggingface.co"]
)
def test_lookalike_hosts_are_not_known_platforms(host: str) -> None:
    assert owner_of(host) is None


async def test_lookup_resolves_hosts_of_supported_platforms(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for url in ("https://mastodon.social/@Gargron", "https://gitlab.com/gitlab-org/cli", "https://github.com/a/b"):
            assert (await node.get(f"/v1/prism/lookup?url={quote(url)}&dry_run=1")).json["data"]["resolved"] is not None
    platforms = load_all()
    usual = {str(one.default) for p in platforms for e in p.endpoints for one in e.params if one.is_host}
    assert not [host for host in usual if owner_of(host)]


async def test_page_at_a_known_host_is_read(tmp_path: Path) -> None:
    """The table applies to server software only. A page on any host is still a page."""
    async with open_test_node(tmp_path) as node:
        answer = await node.get("/v1/web/scrape?url=https://medium.com/@a/b")
        assert answer.json.get("error", {}).get("details", {}).get("reason") != "unsupported"
        assert "medium.com/robots.txt" in node.upstream.requests
