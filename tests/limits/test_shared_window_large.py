"""A shared window that many requests leave at the same time: removing them takes the server no longer than one."""

from __future__ import annotations

import re

import pytest
import trio

from tests.fakes.shared_gates import open_gate, set_clock, virtual_scripts
from tests.servers.redis import RedisServer

LIMIT = 1_000_000
ADMITTED = 500_000
APART_US = 100
WINDOW_US = 60_000_000
WINDOW = "sluice:{a}:window:k"
FILL = "for i = 0, ARGV[1] - 1 do redis.call('RPUSH', KEYS[1], string.format('%.0f', i * ARGV[2])) end"


@pytest.mark.parametrize("left", [0, 1, 2, 3, 4, 1_000, 262_143, 262_144, 262_145, ADMITTED - 1, ADMITTED])
async def test_many_expired_admissions_are_removed_quickly(left: int, empty_redis: RedisServer) -> None:
    """Method: the server counts the commands of the script; each LPOP of the old ones would be one."""
    empty_redis.ask("EVAL", FILL, 1, WINDOW, ADMITTED, APART_US)
    with trio.fail_after(60):
        async with open_gate(empty_redis, requests=LIMIT, scripts=virtual_scripts()) as gate:
            set_clock(empty_redis, WINDOW_US + max(left - 1, 0) * APART_US - (left == 0))
            empty_redis.ask("CONFIG", "RESETSTAT")
            admitted = await gate.admit("a", "k")
            stats = str(empty_redis.ask("INFO", "commandstats"))
    assert admitted.window.remaining == LIMIT - (ADMITTED - left) - 1
    calls = sum(map(int, re.findall(r":calls=([0-9]+)", stats)))
    assert calls < 80
