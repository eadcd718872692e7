"""The log lines of a link: one per state, without a flood from an unstable link."""

from __future__ import annotations

import pytest

from storage.link_log import DOWN_AGAIN_S, LinkLog


def test_each_loss_and_each_return_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = LinkLog("Redis", lambda: now[0])
    log.up()
    for _ in range(3):
        log.down("refused")
    log.up()
    log.up()
    assert [record.getMessage() for record in caplog.records] == [
        "the link to Redis is down: refused",
        "the link to Redis is up",
    ]


def test_unstable_link_is_logged_periodically(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = LinkLog("Redis", lambda: now[0])
    while now[0] < 2.5 * DOWN_AGAIN_S:
        log.down("refused")
        log.up()
        now[0] += 1.0
    assert len(caplog.records) == 6
    while now[0] < 4 * DOWN_AGAIN_S:
        log.down("refused")
        now[0] += 1.0
    assert len(caplog.records) == 7
