"""Owners on two nodes with one database: a session, password or key that ends on one node ends on the other too.

The next request on the other node is refused.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from tests.many.conftest import OpenCluster
from tests.many.harness import PATIENCE_S, Cluster, Node
from tests.many.load import FREE

TWO = (0.0, 0.0)
TIMES = 5
EMAIL, PASSWORD = "ada@example.com", "a river of small stones"
_TOKEN = re.compile(r'name="form_token" value="(\w+)"')


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser that sends the cookies of a host to every port."""

    client: httpx.AsyncClient

    async def get(self, node: Node, path: str) -> httpx.Response:
        return await self.client.get(f"http://{node.public.authority}/dashboard{path}")

    async def send(self, node: Node, page: str, path: str, **fields: str) -> httpx.Response:
        """Return a form of a page of this node."""
        shown = await self.get(node, page)
        token = _TOKEN.search(shown.text)
        assert token is not None, shown.text
        url = f"http://{node.public.authority}/dashboard{path}"
        return await self.client.post(url, data={**fields, "form_token": token[1]})

    async def sign_in(self, node: Node, password: str = PASSWORD) -> int:
        """Sign in. Return the status: 303 on success."""
        return (await self.send(node, "/sign-in", "/sign-in", email=EMAIL, password=password)).status_code

    async def is_in(self, node: Node) -> bool:
        """Return whether the node shows a page instead of asking the user to sign in."""
        page = await self.get(node, "/keys")
        assert page.status_code == 200 or "/dashboard/sign-in" in page.headers["location"]
        return page.status_code == 200


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        yield Browser(client)


async def invite(cluster: Cluster, browser: Browser) -> None:
    """Create a signed-in user with a password."""
    invited = await cluster.operate(cluster.nodes[0], "user.invite", account=cluster.account, email=EMAIL)
    path = invited["url"].partition("/dashboard")[2]
    answer = await browser.send(cluster.nodes[0], path, path, password=PASSWORD, repeated=PASSWORD)
    assert answer.status_code == 303, answer.text


async def test_sign_out_on_one_node_takes_effect_immediately_on_the_other(
    cluster_of: OpenCluster,
) -> None:
    """Sign out or revoke sessions, change a password, and revoke a key, each several times and on either node."""
    async with cluster_of(skews_s=TWO) as cluster, open_browser() as mine, open_browser() as theirs:
        await invite(cluster, mine)
        for here, there in [cluster.nodes, cluster.nodes[::-1]] * TIMES:
            assert await mine.is_in(here)
            assert await mine.is_in(there)
            await _a_session_that_signs_out(theirs, here, there)
            await _a_session_that_another_revokes(mine, theirs, here, there)
            await _a_key(cluster, mine, here, there)
        await _a_password(mine, theirs, *cluster.nodes)


async def _a_session_that_signs_out(theirs: Browser, here: Node, there: Node) -> None:
    assert await theirs.sign_in(there) == 303
    kept = list(theirs.client.cookies.jar)
    assert await theirs.is_in(there)
    assert (await theirs.send(here, "/account", "/sign-out")).status_code == 303
    for cookie in kept:  # a copy that an attacker has kept
        theirs.client.cookies.jar.set_cookie(cookie)
    assert not await theirs.is_in(there)


async def _a_session_that_another_revokes(mine: Browser, theirs: Browser, here: Node, there: Node) -> None:
    assert await theirs.sign_in(there) == 303
    assert await theirs.is_in(there)
    assert (await mine.send(here, "/account", "/account/sessions/others")).status_code == 303
    assert not await theirs.is_in(there)
    assert await mine.is_in(there)


async def _a_key(cluster: Cluster, mine: Browser, here: Node, there: Node) -> None:
    made = await cluster.operate(there, "key.create", account=cluster.account)
    assert (await cluster.told(there, FREE, made["key"])).status == 200
    answer = await mine.send(here, "/keys", f"/keys/{made['id']}/revoke", sure="yes")
    assert answer.status_code == 303
    assert (await cluster.told(there, FREE, made["key"])).status == 401


async def _a_password(mine: Browser, theirs: Browser, here: Node, there: Node) -> None:
    other = "another river of stones"
    assert await theirs.sign_in(there) == 303
    assert await theirs.is_in(there)
    changed = await mine.send(here, "/account", "/account/password", password=other, repeated=other)
    assert changed.status_code == 303, changed.text
    assert not await theirs.is_in(there), "every other session must have ended"
    assert await mine.is_in(there)
    assert await theirs.sign_in(there) != 303, "the old password must be refused"
    assert await theirs.sign_in(there, other) == 303
