"""Where reads of the feed continue when retention passes their position."""

from __future__ import annotations

import pytest

from billing.keys.cache import Key
from gateway.feed.queries import read_query
from gateway.feed.reading import ByConsumer, ByCursor, reading_of
from gateway.feed.tokens import FeedTokens
from gateway.http.errors import Refused
from tests.fakes.feeding import append_some, drop_before
from tests.fakes.node import OpenNode
from upstreams.model.cursors import CursorSigner


async def reading(node: OpenNode) -> ByCursor | ByConsumer:
    """Return a reading of one event per page, from the oldest event on."""
    tokens = FeedTokens(CursorSigner(b"a secret of tests, long enough.."), node.account)
    key = Key(node.key_id, node.account, "", None)
    return await reading_of(node.node.feed.readers, read_query([("limit", "1"), ("cursor", "oldest")]), key, tokens)


async def test_reading_that_has_begun_reports_events_lost_to_retention(node: OpenNode):
    await append_some(node, 5)
    new, begun = await reading(node), await reading(node)
    await begun.read_on()
    await drop_before(node, 3)
    assert (await new.read_on()).page.end.pos == 3, "a new reading begins at the oldest stored event"
    with pytest.raises(Refused) as refused:
        await begun.read_on()
    assert refused.value.code.name == "CURSOR_EXPIRED"
