"""A case for every code of section 7.2 and every `reason` that the code sends: the requests that cause it.

A case is a function of an open node that returns the refusal. `CASES` has them by `CODE` or `CODE/reason`, as the
declarations name them (`gateway.http.codes`, `gateway.docs.errors`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from scheduler.account_webhooks import rows as webhook_rows
from scheduler.account_webhooks import service as webhook_service
from scheduler.jobs import service as job_service
from scheduler.jobs.cohorts import results as cohort_results
from scheduler.jobs.cohorts import service as cohort_service
from tests.fakes.calling import Answered
from tests.fakes.feeding import CONSUMERS, FEED, append_some, drop_before, page, post
from tests.fakes.monitoring import HOOKED, MONITORS, made, patch, ran
from tests.fakes.node import OpenNode
from tests.fakes.odd_platform import ODD
from tests.fakes.panel import Panel
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.gateway.api.routes.asking import answered, ask
from tests.gateway.api.routes.test_cohorts import ADA, QUERY
from tests.spec import asks
from tests.spec.raw import raw_request
from tests.spec.scenes import SCENES
from tests.spec.test_4_5_monitors import finished
from tests.spec.test_7_2_http import SENT
from tests.spec.test_7_4_feed_failures import Away
from upstreams.model.endpoint import Platform

Bring = Callable[[OpenNode, pytest.MonkeyPatch], Awaitable[Answered]]
PAGE_HOST = "a.example.org"
SCRAPE = f"/v1/web/scrape?url=https://{PAGE_HOST}/a"
HTML = {"content-type": "text/html; charset=utf-8"}
DISCOVER = "/v1/prism/discover/runs"
SESSIONS = "/v1/web/sessions"
SESSION = "ws_01a1fd7328fd7bba92988ba98f5dc154"
INSECURE: Mapping[str, Any] = {"webhooks": {"allow_insecure_targets": True}}
DEAD_BROWSER: Mapping[str, Any] = {"web": {"browser_url": "http://127.0.0.1:1"}}
ADD_SESSION = """
INSERT INTO web_sessions (id, account_id, key_id, url, mobile, status, closed_because, charges, held_credits,
    used_credits, ttl_s, node, lease_until, created_at, active_at, closed_at)
VALUES {rows}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """How to cause a refusal, and the settings of the node that returns it."""

    bring: Bring
    tables: Mapping[str, Any] = field(default_factory=dict)
    platforms: tuple[Platform, ...] = ()
    credits: int = 100_000
    charged: int = 0
    """The credits that the refusal costs: only a page that was too costly has a price."""


async def call(node: OpenNode, method: str, target: str, body: object = None, **headers: str) -> Answered:
    answer = await answered(node, method, target, body, **headers)
    return Answered(answer.status_code, dict(answer.headers), answer.content)


def sends(method: str, target: str, body: object = None, **tables: Any) -> Case:
    """Return a case with one request."""
    return Case(lambda node, _patch: call(node, method, target, body), tables)


def scene(name: str) -> Case:
    """Return a case that section 7.2 lists."""
    found = SCENES[name]
    return Case(lambda node, _patch: found.ask(node), found.tables, (ODD,), found.credits)


def http(name: str) -> Case:
    """Return a case of an error of HTTP itself."""
    sent = SENT[name]
    return Case(lambda node, _patch: raw_request(node.url, (*sent.lines, f"x-api-key: {node.key}"), sent.body))


def scraped(*answers: ScriptedAnswer, query: str = "", **tables: Any) -> Case:
    """Return a case that scrapes a page.

    The page's host sends these answers in order, repeats the last one, and has no robots.txt.
    """

    async def bring(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
        left = list(answers)

        def script(asked: str) -> ScriptedAnswer:
            if asked.endswith("/robots.txt"):
                return ScriptedAnswer(404, b"")
            return left.pop(0) if len(left) > 1 else left[0]

        node.upstream.script = script
        return await node.get(f"{SCRAPE}{query}")

    return Case(bring, tables)


def html(text: str, status: int = 200, **headers: str) -> ScriptedAnswer:
    return ScriptedAnswer(status, text.encode(), {**HTML, **headers})


def parsed(content: bytes, name: str, kind: str) -> Case:
    """Return a case that sends a file to be parsed."""

    async def bring(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
        files = {"file": (name, content, kind)}
        answer = await node.client.post(f"{node.url}/v1/web/parse", headers={"x-api-key": node.key}, files=files)
        return Answered(answer.status_code, dict(answer.headers), answer.content)

    return Case(bring)


def of_bluesky(error: str) -> Case:
    """Return a case for an account that Bluesky does not show."""

    async def bring(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
        node.upstream.always(json_answer({"error": error, "message": "as Bluesky says it"}, 400))
        return await node.get("/v1/bluesky/profile?handle=a.test")

    return Case(bring)


async def slow_head(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    host = address_of(node.url)
    async with await trio.open_tcp_stream(*host) as stream:
        await stream.send_all(b"GET /v1/status HTTP/1.1\r\n")
        got = b""
        with trio.fail_after(60):
            async for piece in stream:
                got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    return Answered(int(head.split()[1]), {}, body)


def address_of(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


async def suspended(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    await node.operate("account.suspend", account=node.account)
    answer = await node.get("/v1/credits/balance")
    await node.operate("account.resume", account=node.account)
    return answer


async def too_many_monitors(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    for _ in range(3):
        await made(node)
    return await post(node, MONITORS, HOOKED)


async def paused_monitor(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    id_ = await made(node)
    await patch(node, id_, status="paused")
    return await post(node, f"{MONITORS}/{id_}/run", b"")


async def run_too_soon(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    id_ = await made(node)
    await post(node, f"{MONITORS}/{id_}/run", b"")
    await finished(node, id_)
    return await post(node, f"{MONITORS}/{id_}/run", b"")


async def no_numbers(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    id_ = await made(node, HOOKED)
    await ran(node, id_, [{"_": {}}] * 20, plain=True)
    return await node.get(f"{MONITORS}/{id_}/export")


async def unknown_delivery(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    return await call(node, "POST", f"{await hook(node)}/deliveries/whd_1/redeliver", {})


async def too_many_jobs(node: OpenNode, patching: pytest.MonkeyPatch) -> Answered:
    patching.setattr(job_service, "LIVE_MAX", 1)
    body = {"keywords": ["trio"], "platforms": ["hackernews"], "max_credits": 2, "background": True}
    with node.upstream.holding():
        first = await call(node, "POST", DISCOVER, body)
        answer = await call(node, "POST", DISCOVER, body)
        await call(node, "DELETE", f"{DISCOVER}/{first.json['data']['run_id']}")
    return answer


async def job_over(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    body = {"keywords": ["trio"], "platforms": ["hackernews"], "max_credits": 2, "background": True}
    begun = await call(node, "POST", DISCOVER, body)
    place = f"{DISCOVER}/{begun.json['data']['run_id']}"
    await call(node, "DELETE", place)
    return await call(node, "PATCH", place, {"status": "running"})


async def add_sessions(node: OpenNode, count: int, status: str) -> None:
    closed = 2.0 if status == "closed" else None
    because = "owner" if status == "closed" else None

    def row(number: int) -> tuple[Any, ...]:
        id_ = SESSION[:-2] + f"{number:02d}"
        times = (9e12, 1.0, 1.0, closed)
        owner = (node.account, node.key_id, "https://a.example.org/")
        return (id_, *owner, 0, status, because, "[]", 0, 0, 300, "n", *times)

    await node.node.stores.store.write(lambda tx: tx.run_many(ADD_SESSION, [row(number) for number in range(count)]))


async def too_many_sessions(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    await add_sessions(node, 20, "opening")
    answer = await call(node, "POST", SESSIONS, {"url": "https://a.example.org/"})
    await node.node.stores.store.write(lambda tx: tx.run("DELETE FROM web_sessions"))
    return answer


async def session_over(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    await add_sessions(node, 1, "closed")
    body = {"actions": [{"type": "scrape"}]}
    return await call(node, "POST", f"{SESSIONS}/{SESSION[:-2]}00/execute", body)


async def hook(node: OpenNode, **fields: Any) -> str:
    """Return the path of a new webhook of the account. No server listens at its address."""
    body = {"url": "http://127.0.0.1:9/hook", "types": ["key.revoked"], **fields}
    status, made_ = await ask(node, "POST", "/v1/webhooks", body)
    assert status == 201, made_
    return f"/v1/webhooks/{made_['data']['webhook']['id']}"


async def webhook_paused(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    place = await hook(node)
    await node.node.stores.store.write(lambda tx: tx.run("UPDATE webhooks SET status = 'paused'"))
    return await call(node, "POST", f"{place}/test", {})


async def too_many_webhooks(node: OpenNode, patching: pytest.MonkeyPatch) -> Answered:
    patching.setattr(webhook_service, "WEBHOOKS_MAX", 1)
    await hook(node)
    return await call(node, "POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/hook", "types": ["*"]})


async def too_many_deliveries(node: OpenNode, patching: pytest.MonkeyPatch) -> Answered:
    place = await hook(node)
    for _ in range(webhook_rows.QUEUED_MAX):
        await call(node, "POST", f"{place}/test", {})
    return await call(node, "POST", f"{place}/test", {})


async def too_many_attempts(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    place = await hook(node)
    await call(node, "POST", f"{place}/test", {})
    (delivery,) = (await ask(node, "GET", f"{place}/deliveries"))[1]["data"]["items"]
    await node.node.stores.store.write(
        lambda tx: tx.run(
            "UPDATE deliveries SET attempts = 1000000, status = 'failed', next_at = NULL, node = NULL, "
            "lease_until = NULL, failed_at = 1.0"
        )
    )
    return await call(node, "POST", f"{place}/deliveries/{delivery['id']}/redeliver", {})


async def too_many_consumers(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    for number in range(100):
        await page(node, f"consumer=c{number}")
    return await node.get(f"{FEED}?consumer=c100")


async def retention_passed(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    await append_some(node, 5)
    items = (await page(node))["data"]["items"]
    await drop_before(node, 4)
    return await node.get(f"{FEED}?cursor={items[0]['cursor']}")


async def feed_away(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    readers = node.node.feed.readers
    kept, away = readers.pages._store, Away(readers.store)
    readers.pages._store = away  # type: ignore[assignment]
    answer = await node.get(FEED)
    readers.pages._store = kept
    return answer


async def no_captions(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    node.upstream.script = lambda asked: json_answer(
        {"data": [], "total": 0} if "captions" in asked else {"id": 1, "uuid": "1"}
    )
    return await node.get("/v1/peertube/video/transcript?id=10001")


async def robots_disallowed(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    rules = ScriptedAnswer(200, b"User-agent: *\nDisallow: /\n", {"content-type": "text/plain"})
    node.upstream.script = lambda _asked: rules
    return await node.get(SCRAPE.replace(PAGE_HOST, "closed.example.org"))  # a host whose robots.txt is not known yet


async def too_costly(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    node.upstream.always(json_answer({}))
    return await node.get("/v1/odd/costly")


async def too_costly_query(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    cohort = await cohort_of(node, "ada.test")
    return await call(node, "POST", f"/v1/cohorts/{cohort}/queries", {**QUERY, "max_credits": 1})


async def cohort_of(node: OpenNode, *handles: str) -> str:
    """Return the id of a new cohort whose members are these Bluesky accounts."""
    node.upstream.script = Panel({"ada.test": ADA})
    cohort: str = (await call(node, "POST", "/v1/cohorts", {})).json["data"]["id"]
    for handle in handles:
        assert (await join(node, cohort, handle=handle, external_id=f"id-{handle}")).status == 200
    return cohort


async def join(node: OpenNode, cohort: str, **member: Any) -> Answered:
    members = [{"platform": "bluesky", **member}]
    return await call(node, "PUT", f"/v1/cohorts/{cohort}/members", {"members": members})


async def too_many_cohorts(node: OpenNode, patching: pytest.MonkeyPatch) -> Answered:
    patching.setattr(cohort_service, "COHORTS_MAX", 1)
    await cohort_of(node)
    return await call(node, "POST", "/v1/cohorts", {})


async def too_many_members(node: OpenNode, patching: pytest.MonkeyPatch) -> Answered:
    patching.setattr(cohort_service, "MEMBERS_MAX", 1)
    return await join(node, await cohort_of(node, "ada.test"), handle="bob.test")


async def unsupported_member(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    return await join(node, await cohort_of(node), platform="wikipedia", handle="ada")


async def member_twice(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    return await join(node, await cohort_of(node, "ada.test"), handle="ada.test", external_id="other")


async def begun_query(node: OpenNode) -> str:
    cohort = await cohort_of(node, "ada.test")
    begun = await call(node, "POST", f"/v1/cohorts/{cohort}/queries", QUERY)
    return f"/v1/cohort-queries/{begun.json['data']['query_id']}"


async def query_not_ready(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    with node.upstream.holding():
        place = await begun_query(node)
        answer = await node.get(f"{place}/results")
        await call(node, "DELETE", place)
    return answer


async def query_over(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    with node.upstream.holding():
        place = await begun_query(node)
        await call(node, "DELETE", place)
    return await call(node, "DELETE", place)


async def result_too_large(node: OpenNode, patching: pytest.MonkeyPatch) -> Answered:
    place = await begun_query(node)
    with trio.fail_after(60):
        while (await node.get(place)).json["data"]["finished_at"] is None:  # noqa: ASYNC110 - the node's
            await trio.sleep(0.02)
    patching.setattr(cohort_results, "PAGE_BYTES", cohort_results.AROUND_BYTES + 100)
    return await node.get(f"{place}/results")


async def credits_held(node: OpenNode, _patch: pytest.MonkeyPatch) -> Answered:
    """Reserve the account's only credit with a call that is in progress."""
    return await asks.while_another_runs(node)


def unknown(path: str, **tables: Any) -> Case:
    """Return a case for an id that does not exist."""
    return sends("GET", path, **tables)


CASES: Mapping[str, Case] = {
    "MISSING_API_KEY": scene("no key"),
    "MISSING_API_KEY/key_in_query": scene("a key only in the URL"),
    "INVALID_API_KEY": scene("an unknown key"),
    "INVALID_API_KEY/account_suspended": Case(suspended),
    "INSUFFICIENT_CREDITS": scene("no credits"),
    "INSUFFICIENT_CREDITS/balance_too_low": scene("fewer credits than the cost"),
    "INSUFFICIENT_CREDITS/above_max_credits": scene("more than max_credits"),
    "KEY_BUDGET_EXCEEDED": scene("a spent key"),
    "KEY_BUDGET_EXCEEDED/key_budget_reached": scene("a spent key"),
    "INVALID_REQUEST": scene("an undeclared parameter"),
    "INVALID_REQUEST/key_in_query": scene("a key in the URL"),
    "INVALID_REQUEST/invalid_param": scene("a missing parameter"),
    "INVALID_REQUEST/capability_missing": sends("GET", f"{SCRAPE}&wait_for=100"),
    "INVALID_REQUEST/unsupported_content": parsed(b"\x89PNG\r\n\x1a\n\0\0", "a.png", "image/png"),
    "INVALID_REQUEST/empty": parsed(b"<html><body><script>1</script></body></html>", "a.html", "text/html"),
    "INVALID_REQUEST/unreadable_file": parsed(b"%PDF-1.7 and nothing of one", "a.pdf", "application/pdf"),
    "INVALID_REQUEST/invalid_utf8": sends("GET", "/v1/github/profile?handle=%FF"),
    "INVALID_REQUEST/double_encoded": sends("GET", "/v1/github/search?query=structured%2520concurrency"),
    "INVALID_REQUEST/unsupported": sends("GET", "/v1/prism/lookup?url=https://x.com/someone/status/1"),
    "INVALID_REQUEST/conflicting_params": scene("a stream with an idempotency key"),
    "INVALID_REQUEST/monitor_limit_reached": Case(too_many_monitors),
    "INVALID_REQUEST/monitor_paused": Case(paused_monitor),
    "INVALID_REQUEST/job_limit_reached": Case(too_many_jobs),
    "INVALID_REQUEST/session_limit_reached": Case(too_many_sessions, DEAD_BROWSER),
    "INVALID_REQUEST/session_over": Case(session_over, DEAD_BROWSER),
    "INVALID_REQUEST/job_over": Case(job_over),
    "INVALID_REQUEST/above_max_credits": Case(too_costly_query),
    "INVALID_REQUEST/no_numbers": Case(no_numbers),
    "INVALID_REQUEST/webhook_paused": Case(webhook_paused, INSECURE),
    "INVALID_REQUEST/webhook_limit_reached": Case(too_many_webhooks, INSECURE),
    "INVALID_REQUEST/deliveries_limit_reached": Case(too_many_deliveries, INSECURE),
    "INVALID_REQUEST/attempts_limit_reached": Case(too_many_attempts, INSECURE),
    "INVALID_REQUEST/consumer_limit_reached": Case(too_many_consumers),
    "METHOD_NOT_ALLOWED": scene("a wrong method"),
    "ENDPOINT_NOT_FOUND": scene("an unknown platform"),
    "RESOURCE_NOT_FOUND": scene("an upstream's 404"),
    "RESOURCE_NOT_FOUND/account_private": of_bluesky("BlockedByActor"),
    "RESOURCE_NOT_FOUND/account_gone": of_bluesky("AccountTakedown"),
    "RESOURCE_NOT_FOUND/no_captions": Case(no_captions),
    "RESOURCE_NOT_FOUND/login_required": scraped(html("", 401)),
    "RESOURCE_NOT_FOUND/challenge": scraped(html("<title>Just a moment...</title>", 403)),
    "RESOURCE_NOT_FOUND/robots_disallowed": Case(robots_disallowed),
    "RESOURCE_NOT_FOUND/javascript_required": scraped(html('<div id="root"></div>')),
    "RESOURCE_NOT_FOUND/pdf": scraped(ScriptedAnswer(200, b"%PDF-1.7", {"content-type": "application/pdf"})),
    "RESOURCE_NOT_FOUND/unsupported_content": scraped(
        ScriptedAnswer(200, b"\x89PNG\r\n", {"content-type": "image/png"})
    ),
    "RESOURCE_NOT_FOUND/redirect_loop": scraped(html("", 302, location="/a")),
    "RESOURCE_NOT_FOUND/empty": scraped(html(" ")),
    "RESOURCE_NOT_FOUND/page_too_costly": Case(too_costly, platforms=(ODD,), charged=5),
    "RESOURCE_NOT_FOUND/unknown_monitor": unknown(f"{MONITORS}/mon_1"),
    "RESOURCE_NOT_FOUND/unknown_run": unknown(f"{DISCOVER}/dr_1"),
    "RESOURCE_NOT_FOUND/unknown_delivery": Case(unknown_delivery, INSECURE),
    "RESOURCE_NOT_FOUND/unknown_webhook": unknown("/v1/webhooks/wh_1"),
    "RESOURCE_NOT_FOUND/unknown_schedule": unknown("/v1/prism/discover/schedules/ds_1"),
    "RESOURCE_NOT_FOUND/unknown_job": unknown("/v1/web/jobs/job_1"),
    "RESOURCE_NOT_FOUND/unknown_cohort": unknown("/v1/cohorts/coh_1"),
    "RESOURCE_NOT_FOUND/unknown_cohort_query": unknown("/v1/cohort-queries/cq_1"),
    "RESOURCE_NOT_FOUND/unknown_session": unknown(f"{SESSIONS}/{SESSION}", **DEAD_BROWSER),
    "RESOURCE_NOT_FOUND/unknown_consumer": unknown(f"{CONSUMERS}/new"),
    "PAYLOAD_TOO_LARGE": scene("a body over 1 MB"),
    "IDEMPOTENCY_KEY_CONFLICT": scene("another endpoint under a running idempotency key"),
    "IDEMPOTENCY_IN_PROGRESS": scene("the same request under its idempotency key"),
    "IDEMPOTENCY_REPLAY_UNAVAILABLE": scene("a response too long to replay"),
    "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH": scene("another query under a finished idempotency key"),
    "COHORT_LIMIT_EXCEEDED": Case(too_many_cohorts),
    "COHORT_LIMIT_EXCEEDED/cohort_limit_reached": Case(too_many_cohorts),
    "COHORT_MEMBER_LIMIT_EXCEEDED": Case(too_many_members),
    "COHORT_MEMBER_LIMIT_EXCEEDED/member_limit_reached": Case(too_many_members),
    "COHORT_IDENTITY_PLATFORM_UNSUPPORTED": Case(unsupported_member),
    "COHORT_IDENTITY_PLATFORM_UNSUPPORTED/platform_unsupported": Case(unsupported_member),
    "COHORT_IDENTITY_CONFLICT": Case(member_twice),
    "COHORT_IDENTITY_CONFLICT/identity_conflict": Case(member_twice),
    "COHORT_QUERY_NOT_CANCELLABLE": Case(query_over),
    "COHORT_QUERY_NOT_CANCELLABLE/query_over": Case(query_over),
    "COHORT_QUERY_NOT_READY": Case(query_not_ready),
    "COHORT_QUERY_NOT_READY/query_not_ready": Case(query_not_ready),
    "COHORT_RESULT_TOO_LARGE": Case(result_too_large),
    "COHORT_RESULT_TOO_LARGE/result_too_large": Case(result_too_large),
    "CURSOR_EXPIRED": Case(retention_passed),
    "CURSOR_EXPIRED/retention_passed": Case(retention_passed),
    "RATE_LIMITED": scene("a full window"),
    "RATE_LIMITED/run_too_soon": Case(run_too_soon),
    "CONCURRENCY_LIMIT": scene("all leases held"),
    "CONCURRENCY_LIMIT/credits_held": Case(credits_held, credits=1),
    "UPSTREAM_ERROR": scene("a failing upstream"),
    "SERVICE_UNAVAILABLE": scene("an open circuit"),
    "SERVICE_UNAVAILABLE/store_unavailable": Case(feed_away),
    "INTERNAL_ERROR": scene("a bug"),
    "REQUEST_TIMEOUT": Case(slow_head),
    "URI_TOO_LONG": http("a long target"),
    "UNSUPPORTED_MEDIA_TYPE": http("a compressed body"),
    "UNSUPPORTED_MEDIA_TYPE/encoded_body": http("a compressed body"),
    "UNSUPPORTED_MEDIA_TYPE/not_a_form": sends("POST", "/v1/web/parse", {}),
    "EXPECTATION_FAILED": http("another expectation"),
    "UPGRADE_REQUIRED": http("a request without a WebSocket handshake"),
    "UPGRADE_REQUIRED/websocket_only": sends("GET", "/v1/events/ws"),
    "HEADERS_TOO_LARGE": http("many headers"),
    "NOT_IMPLEMENTED": http("a proxy's method"),
    "HTTP_VERSION_NOT_SUPPORTED": http("another version"),
}
