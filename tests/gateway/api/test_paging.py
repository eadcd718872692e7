"""An account's lists: where a page begins, which list and account a cursor belongs to, and next cursors (spec 4.3)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.accounts.balances import Balances
from billing.keys.cache import Key
from gateway.api.paging import Lists, position_after
from gateway.api.responses import Replies
from gateway.http.request import Caller, Request
from limits.gate import BalanceUpdate
from upstreams.model.cursors import CursorSigner
from upstreams.model.errors import InvalidCursor

SIGNER = CursorSigner(b"a secret of tests, long enough..")
IDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


class KnownStore:
    async def read(self, _reading: Any) -> BalanceUpdate:  # noqa: ASYNC124 - has a store's signature
        return BalanceUpdate(1, 55)


def lists() -> Lists:
    store: Any = KnownStore()
    return Lists(SIGNER, Replies(Balances(store), "https://api.example.com"))


def request(path: str = "/v1/monitors") -> Request:
    return Request("req_1", "GET", path, b"", {}, 0.0)


def caller(account: str = "acc_1") -> Caller:
    return Caller(Key("key_1", account, "test", None))


async def page(items: list[Any], more: Any = None, *chosen: object) -> Any:
    place = lists().position(request(), caller(), {}, *chosen)
    reply = await lists().page(request(), caller(), items, place=place, more=more)
    return orjson.loads(reply.body)


async def test_last_page_has_no_next_cursor() -> None:
    assert lists().position(request(), caller(), {"limit": 5}).before is None
    for items in ([], [{"id": "1"}], [{"id": "1"}, {"id": "2"}]):
        body = await page(items)
        assert body["data"] == {"items": items}
        assert body["pagination"] == {"next_cursor": None, "has_more": False, "page_size": len(items)}
        assert (body["platform"], body["endpoint"], body["credits_used"]) == ("account", "/v1/monitors", 0)


@given(st.floats(0, 9e15), IDS)
async def test_cursor_continues_where_its_page_ended(at: float, id_: str) -> None:
    body = await page([{"id": "1"}], position_after(at, id_), "all")
    cursor = body["pagination"]["next_cursor"]
    assert body["pagination"] == {"next_cursor": cursor, "has_more": True, "page_size": 1}
    assert cursor.startswith("cur_")
    assert lists().position(request(), caller(), {"cursor": cursor}, "all").before == (at, id_)


async def test_cursor_is_valid_for_its_list_and_account_only() -> None:
    cursor = (await page([], position_after(0.1 + 0.2, "mon_1"), "all"))["pagination"]["next_cursor"]
    sent = {"cursor": cursor}
    for path, account, chosen in (
        ("/v1/monitors", "acc_1", ("active",)),
        ("/v1/monitors", "acc_1", ()),
        ("/v1/monitors", "acc_1", ("all", None)),
        ("/v1/monitors", "acc_2", ("all",)),
        ("/v1/monitors/", "acc_1", ("all",)),
    ):
        with pytest.raises(InvalidCursor):
            lists().position(request(path), caller(account), sent, *chosen)
    assert lists().position(request(), caller(), sent, "all").before == (0.1 + 0.2, "mon_1")
    for forged in ("cur_AAAA", "", "x", "cur_" + "A" * 5_000):
        with pytest.raises(InvalidCursor):
            lists().position(request(), caller(), {"cursor": forged})
