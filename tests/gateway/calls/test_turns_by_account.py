"""Work that waits for turns runs for the account of its request, batch or composite."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import orjson
import pytest

from tests.fakes.node import OpenNode
from tests.fakes.scripted_upstream import ScriptedAnswer
from upstreams.fetching.aside import LONG_BYTES, Aside

T = TypeVar("T")
LONG = "x" * LONG_BYTES
USER = orjson.dumps({"id": 1, "login": "octocat", "bio": LONG})


class RecordingAside(Aside):
    """Records the account of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: list[str] = []

    async def run(self, work: Callable[[], T], deadline_at: float, *, source: str, account_id: str) -> T:
        self.accounts.append(account_id)
        return await super().run(work, deadline_at, source=source, account_id=account_id)


def record(node: OpenNode) -> RecordingAside:
    """Make every site and source of a node read long responses through one recorder, and return the recorder."""
    aside = RecordingAside()
    for site in node.node.catalog.sites.values():
        site.aside = aside
        for source in site.sources.values():
            source._aside = aside  # type: ignore[union-attr]
    return aside


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/v1/github/profile?handle=octocat", None),
        ("/v1/prism/lookup?url=https://github.com/octocat", None),
        ("/v1/prism/profiles", {"urls": ["https://github.com/octocat"]}),
    ],
)
async def test_steps_belong_to_the_calling_account(node: OpenNode, target: str, body: object) -> None:
    node.upstream.script = lambda _asked: ScriptedAnswer(200, USER)
    aside, other = record(node), await node.new_account()
    for account, key in ((node.account, node.key), (other, (await node.new_key(other))[0])):
        aside.accounts.clear()
        headers = {"x-api-key": key, "cache-control": "no-cache", "content-type": "application/json"}
        method = "GET" if body is None else "POST"
        content = None if body is None else orjson.dumps(body)
        answer = await node.client.request(method, node.url + target, content=content, headers=headers)
        assert answer.status_code == 200, answer.text[:500]
        assert len(aside.accounts) >= 2, "expected a step for the body and one for the read"
        assert set(aside.accounts) == {account}
