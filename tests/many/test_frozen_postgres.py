"""PostgreSQL freezes under load, with all its processes: no request is charged twice, and nothing is lost."""

from __future__ import annotations

import trio

from tests.many.harness import Cluster
from tests.many.load import open_load
from tests.many.test_servers_away import BACK_S, SETTLE_S, assert_back, assert_refused
from tests.servers.postgres import PostgresServer

NOTICED_S = 4.5
FROZEN_S = NOTICED_S + 2.5
AT_ONCE_S = 3.0  # on a busy machine, still less than the time to detect the failure


async def test_frozen_postgresql_hides_balances_and_charges_at_most_once(
    cluster: Cluster, postgres: PostgresServer
) -> None:
    async with open_load(cluster) as answers:
        await trio.sleep(SETTLE_S)
        await trio.to_thread.run_sync(postgres.freeze)
        began = trio.current_time()
        await trio.sleep(FROZEN_S)
        ended = trio.current_time()
        await trio.to_thread.run_sync(postgres.thaw)
        await trio.sleep(BACK_S + SETTLE_S + 0.5)
    assert cluster.unanswered == 0
    away = [answer for answer in answers if began <= answer.sent_at and answer.there_at < ended]
    assert_refused(away)
    for answer in away:
        assert answer.json["credits_remaining"] is None
        assert "x-credits-remaining" not in answer.headers
    known = [answer for answer in away if answer.sent_at > began + NOTICED_S]
    assert max(answer.took_s for answer in known) < AT_ONCE_S
    assert_back(answers, ended)
