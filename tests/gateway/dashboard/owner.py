"""An owner in a simulated browser: cookies, forms with their tokens, and the text of pages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import httpx
from werkzeug.routing import Rule

from gateway.dashboard.site import Dashboard
from tests.fakes.node import PATIENCE_S, OpenNode, open_test_node

PASSWORD = "a river of small stones"
_TOKEN = re.compile(r'name="form_token" value="(\w+)"')


@dataclass(slots=True)
class Owner:
    """A browser at a node's dashboard."""

    node: OpenNode
    client: httpx.AsyncClient
    email: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    page: httpx.Response = field(init=False)
    """The open page."""

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page below `/dashboard`, like following a link."""
        self.page = await self.client.get(self._url(path), headers={**self.headers, **headers})
        return self.page

    async def send(self, path: str, *, token: str | None = None, **fields: Any) -> httpx.Response:
        """Send a form of the open page."""
        return await self.send_fields(path, fields, token=token)

    async def send_fields(
        self, path: str, fields: Mapping[str, Any], *, token: str | None = None, **headers: str
    ) -> httpx.Response:
        """Send a form whose field names may not be valid Python names."""
        sent = {**fields, "form_token": self.token if token is None else token}
        self.page = await self.client.post(self._url(path), data=sent, headers={**self.headers, **headers})
        return self.page

    async def follow(self, answer: httpx.Response) -> httpx.Response:
        """Open the page to which a response redirects."""
        assert answer.status_code == 303, answer.text
        return await self.get(answer.headers["location"].removeprefix("/dashboard"))

    @property
    def token(self) -> str:
        """The form token of the open page."""
        found = _TOKEN.search(self.page.text)
        assert found is not None, self.page.text
        return found[1]

    @property
    def words(self) -> str:
        """The text of the open page."""
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", self.page.text)).split())

    async def sign_in(self, password: str = PASSWORD) -> httpx.Response:
        """Sign in with the form."""
        await self.get("/sign-in")
        return await self.send("/sign-in", email=self.email, password=password)

    def _url(self, path: str) -> str:
        return f"{self.node.url}/dashboard{path}"


def rules_of(owner: Owner) -> list[Rule]:
    """Return the routes of the dashboard."""
    (dashboard,) = [one for one in owner.node.node.api.adjacent_pages if isinstance(one, Dashboard)]
    return list(dashboard._app._app.url_map.iter_rules())  # type: ignore[attr-defined]


@asynccontextmanager
async def open_browser(node: OpenNode) -> AsyncIterator[Owner]:
    """A browser without cookies."""
    async with httpx.AsyncClient(timeout=PATIENCE_S, verify=False) as client:
        yield Owner(node, client)


@asynccontextmanager
async def open_owner(node: OpenNode, account: str = "", email: str = "") -> AsyncIterator[Owner]:
    """An owner who was invited and has signed in through the invitation, by default the owner of the node's account."""
    account = account or node.account
    email = email or f"owner@{account.replace('_', '-')}.example.com"
    invite = await node.operate("user.invite", account=account, email=email)
    async with open_browser(node) as owner:
        owner.email = email
        path = invite["url"].partition("/dashboard")[2]
        await owner.get(path)
        answer = await owner.send(path, password=PASSWORD, repeated=PASSWORD)
        assert answer.status_code == 303, answer.text
        yield owner


@asynccontextmanager
async def open_owned_node(folder: Path, **tables: Mapping[str, object]) -> AsyncIterator[Owner]:
    """A node with one owner."""
    async with open_test_node(folder, **tables) as node, open_owner(node) as owner:
        yield owner
        assert node.log_events("page_failed") == []
