"""Section 7.2 for monitors: no path, query or body of a request causes an internal error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from tests.fakes.feeding import post
from tests.fakes.monitoring import HOOKED, LIKES, MONITORS, POSTS, TRACKED, made
from tests.fakes.node import OpenNode, open_test_node
from tests.gate.matrix import sample
from tests.spec.test_7_2_no_500 import NASTY, PATIENT

INSTANTS = (
    *("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-01-01T24:00:00Z", "2026-W01-1", "nan", "1e400"),
    *("20260101T000000Z", "2026-06-30T23:59:60Z", "2026-01-01T00:00:00.999999999Z"),
)
QUERIES: Mapping[str, tuple[str, ...]] = {
    "": ("x",),
    "/runs": ("status", "include", "from", "to", "limit", "cursor"),
    "/timeseries": ("metric", "row", "from", "to"),
    "/export": ("format", "from", "to"),
    "/chart.svg": ("metric", "row"),
    "/deliveries": ("limit", "cursor"),
}
RULES = {"alert_rules": [{"metric": LIKES, "op": "gt", "value": 1, "consecutive": 2, "cooldown_s": 5}]}
BODIES: tuple[Mapping[str, Any], ...] = (HOOKED, TRACKED, {**POSTS, **RULES, "webhook_format": "full"})
LEAVES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e308, 2**53 + 1, 2**63, 2**64, 10**300, "", "\0", "\ud7ff", "x" * 300, "🌊"),
    *("total", LIKES, "items[].", "..", "a.b.c.d.e.f", "hourly", "0 0 31 4 *", "0 0 L * *", "*/0 * * * *", "UTC"),
    *("https://[::1]/", "gt", "no_data", "rows", "paused", "2026-01-31T12:00:00Z", "../etc/passwd"),
)
NAMES = (
    *("metrics", "row_key", "max_rows", "metric", "op", "value", "consecutive", "cooldown_s", "cron", "timezone"),
    *("handle", "query", "a"),
)
ROUNDS = 250
UNDERSTOOD = {200, 201, 202, 204, 400, 404, 405}


def anything(rng: Random, depth: int = 0) -> Any:
    """Return any JSON value."""
    kind = rng.random() if depth < 3 else 0.0
    if kind < 0.7:
        return rng.choice(LEAVES)
    if kind < 0.85:
        return [anything(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {rng.choice(NAMES): anything(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def changed(body: Any, rng: Random) -> Any:
    """Return the body with another value in one place."""
    if not isinstance(body, dict | list) or not body or rng.random() < 0.2:
        return anything(rng)
    place = rng.choice(list(body) if isinstance(body, dict) else range(len(body)))
    copy = dict(body) if isinstance(body, dict) else [*body]
    copy[place] = changed(body[place], rng)
    return copy


async def test_no_id_or_query_causes_an_internal_error(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, **PATIENT) as node:
        id_ = await made(node, TRACKED)
        for value in map(quoted, sample((*NASTY, *INSTANTS), share=3)):
            for path, names in QUERIES.items():
                for name in names:
                    await asked(node, "GET", f"{id_}{path}?{name}={value}")
            for method, path in (
                ("GET", ""),
                ("DELETE", ""),
                ("GET", "/runs"),
                ("POST", "/run"),
                ("GET", "/deliveries"),
            ):
                await asked(node, method, f"{value}{path}")
            await asked(node, "POST", f"{id_}/deliveries/{value}/redeliver")
        assert node.log_events("request_failed") == []


async def test_no_body_causes_an_internal_error(tmp_path: Path) -> None:
    """Method: valid bodies with one wrong value, from a seed."""
    rng = Random(7)
    async with open_test_node(tmp_path, **PATIENT) as node:
        id_ = await made(node, POSTS)
        for _ in range(ROUNDS):
            body = changed(rng.choice(BODIES), rng)
            answer = await post(node, f"{MONITORS}?dry_run=1", json.dumps(body).encode())
            assert answer.status in UNDERSTOOD, (body, answer.body)
            change = {name: anything(rng) for name in rng.sample(["name", "cadence", "alert_rules", "webhook_url"], 2)}
            await asked(node, "PATCH", id_, change)
            tried = {name: anything(rng) for name in rng.sample(["alert_rules", "from", "to"], 2)}
            await asked(node, "POST", f"{id_}/backtest", tried)
            await asked(node, "GET", id_)
        assert node.log_events("request_failed") == []


def quoted(value: str) -> str:
    """Return the value as one path segment, or as the value of a parameter."""
    return quote(value, safe="") or "%20"


async def asked(node: OpenNode, method: str, target: str, body: Any = None) -> None:
    """Send a request, and check that any error says what is wrong."""
    content = None if body is None else json.dumps(body).encode()
    url = f"{node.url}{MONITORS}/{target}"
    answer = await node.client.request(method, url, content=content, headers={"x-api-key": node.key})
    assert answer.status_code in UNDERSTOOD, (method, target, body, answer.content)
