"""Shared gates on a simulated clock: the packaged scripts with one line replaced, and a log of their actions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields

from limits.shared_gate import GateScripts, GateSpans, SharedGate, open_shared_gate, read_gate_scripts
from storage.redis.state import open_redis
from storage.state import Script
from tests.servers.redis import RedisServer

CLOCK = b"redis.call('TIME')"


def virtual_scripts() -> GateScripts:
    """Return the scripts on the clock that `set_clock` sets."""
    return _rewritten(CLOCK, b"cjson.decode(redis.call('GET', 'clock'))")


def logged_scripts() -> GateScripts:
    """Return the scripts on the server's clock, which append the time in us of each admission to `log`.

    The times of refusals go to `refused`.
    """
    scripts = read_gate_scripts()
    text = _with(
        scripts.admit.text, b"return {1,", b"redis.call('RPUSH', 'log', string.format('%.0f', now))\nreturn {1,"
    )
    text = _with(text, b"return {0,", b"redis.call('RPUSH', 'refused', string.format('%.0f', now))\n  return {0,")
    return GateScripts(Script(text), scripts.hold, scripts.renew, scripts.undo, scripts.publish_balance)


def set_clock(server: RedisServer, us: int) -> None:
    """Set the clock that the virtual scripts read."""
    server.ask("SET", "clock", f'["{us // 1_000_000}", "{us % 1_000_000}"]')


@asynccontextmanager
async def open_gate(
    server: RedisServer,
    *,
    requests: int = 5,
    concurrent: int = 3,
    scripts: GateScripts | None = None,
    window_s: float = 60,
    lease_s: float = 30,
    round_trip_s: float = 5,
) -> AsyncIterator[SharedGate]:
    """Open one node's gate on its own connection, with long timeouts for a busy machine."""
    async with (
        open_redis(server.url, round_trip_s=round_trip_s) as state,
        open_shared_gate(
            state,
            requests=requests,
            concurrent=concurrent,
            scripts=scripts,
            spans=GateSpans(window_s=window_s, lease_s=lease_s),
        ) as gate,
    ):
        yield gate


def _rewritten(old: bytes, new: bytes) -> GateScripts:
    scripts = read_gate_scripts()
    texts = [getattr(scripts, field.name).text for field in fields(scripts)]
    assert old in texts[0]
    return GateScripts(*[Script(text.replace(old, new)) for text in texts])


def _with(text: bytes, old: bytes, new: bytes) -> bytes:
    assert text.count(old) == 1
    return text.replace(old, new)
