"""Entity tags of the feed: the same tag means the same page, and a tag that is still valid gets a 304."""

from __future__ import annotations

import trio

from tests.fakes.calling import Answered
from tests.fakes.feeding import FEED, ack, append, append_some, drop_before, low, page, polling, subjects
from tests.fakes.node import OpenNode


async def read(node: OpenNode, query: str, known: str = "", key: str = "") -> Answered:
    return await node.get(f"{FEED}?{query}", key=key, headers={"if-none-match": known} if known else {})


FORMS = ("{}", "W/{}", '"a", {}', '{}, "a"', 'W/"1.eAAAA" ,W/{}', "*", '"a",*')
UNKNOWN = ('""', '"x"', "x", '"3.e"', '"3.mAAAA"', '"99999999999999999999.eAAAA"', '"-3.eAAAA"', ",", '"003.eAAAA"')


async def test_tag_in_any_form_returns_304_and_an_unknown_one_the_page(node: OpenNode) -> None:
    await append_some(node, 3)
    for query in ("", "limit=2", "cursor=now", "consumer=one"):
        tag = (await read(node, query)).headers["etag"]
        for form in FORMS:
            answer = await read(node, query, form.format(tag))
            assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag), (query, form)
            assert answer.headers["cache-control"] == "private, no-cache"
            assert "content-type" not in answer.headers
        for known in UNKNOWN:
            assert (await read(node, query, known)).status == 200, (query, known)


async def test_truncated_page_changes_only_when_its_events_expire(node: OpenNode) -> None:
    await append_some(node, 5)
    query = f"cursor={(await page(node))['data']['items'][0]['cursor']}&limit=2"
    first = await read(node, query)
    tag = first.headers["etag"]
    await append(node, *[low(node.account)] * 5)
    with trio.fail_after(5):  # a truncated page is answered without waiting
        assert (await read(node, f"{query}&wait_s=25", tag)).status == 304
    again = await read(node, query)
    assert (again.json["data"]["items"], again.headers["etag"]) == (first.json["data"]["items"], tag)
    await drop_before(node, 4)
    assert (await read(node, query, tag)).status == 410


async def test_whole_page_changes_when_the_log_grows(node: OpenNode) -> None:
    """The `next_cursor` is the end of the log, so a change of it must be reported."""
    await append_some(node, 3)
    first = await read(node, "types=key.*")
    await append(node, low(node.account))
    second = await read(node, "types=key.*", first.headers["etag"])
    assert second.status == 200
    assert second.json["data"]["items"] == first.json["data"]["items"]
    assert second.json["pagination"] != first.json["pagination"]


async def test_different_reads_have_different_tags(node: OpenNode) -> None:
    await append_some(node, 3)
    other, _ = await node.new_key(node.account)
    cursor = (await page(node))["data"]["items"][0]["cursor"]
    queries = ["", "limit=2", "limit=3", f"cursor={cursor}", "types=key.*", "subject_id=key_0", "cursor=now"]
    queries += ["consumer=one", "consumer=two"]
    tags = [(await read(node, query)).headers["etag"] for query in queries]
    tags.append((await read(node, "", key=other)).headers["etag"])
    assert len(set(tags)) == len(tags)
    for query, tag in zip(queries, tags, strict=False):
        for foreign in tags:
            assert ((await read(node, query, foreign)).status == 304) == (foreign == tag), query


async def test_request_with_a_current_tag_waits_until_the_page_changes(node: OpenNode) -> None:
    """A poll that sends the tag of its page waits for a new page, although the page has items."""
    await append_some(node, 2)
    outdated = (await read(node, "")).headers["etag"]
    async with polling(node, "wait_s=25", headers={"if-none-match": outdated}) as answer:
        await append_some(node, 1, first=2)
        answered = await answer()
    assert subjects(answered.json) == ["key_0", "key_1", "key_2"]
    with trio.fail_after(5):
        assert (await read(node, "wait_s=25", outdated)).status == 200
    began = trio.current_time()
    assert (await read(node, "wait_s=1", answered.headers["etag"])).status == 304
    assert trio.current_time() - began > 0.9


async def test_consumer_page_changes_with_unread_and_acknowledgement(node: OpenNode) -> None:
    await append_some(node, 3)
    first = await read(node, "consumer=one&limit=2")
    tag = first.headers["etag"]
    await append_some(node, 1, first=3)
    second = await read(node, "consumer=one&limit=2", tag)
    assert (second.status, second.json["data"]["unread"]) == (200, 4)
    await ack(node, "one", first.json["pagination"]["next_cursor"])
    third = await read(node, "consumer=one&limit=2", second.headers["etag"])
    assert (third.status, subjects(third.json)) == (200, ["key_2", "key_3"])


async def test_head_request_has_the_tag_and_no_body(node: OpenNode) -> None:
    await append_some(node, 2)
    whole = await node.get(FEED)
    head = await node.get(FEED, method="HEAD")
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", whole.headers["etag"])
    lengths = [int(one.headers["content-length"]) for one in (head, whole)]
    assert abs(lengths[0] - lengths[1]) < 3, "the lengths may differ by the digits of the balance"
    with trio.fail_after(5):
        held = await node.get(f"{FEED}?cursor=now&wait_s=25", method="HEAD")
    assert held.status == 200
    known = await node.get(FEED, method="HEAD", headers={"if-none-match": whole.headers["etag"]})
    assert known.status == 304
