"""A host that accepts connections but never responds, next to hosts that do: over real sockets, on both engines."""

from collections.abc import Mapping

import trio

from scheduler.webhooks.deliveries.due_cache import HOST_MAX
from scheduler.webhooks.deliveries.sender import open_sender
from storage.store import Tx
from tests.fakes.upstream_server import Peer, always, open_upstream_server, reply, until
from tests.scheduler.webhooks.office import Office

HELD, ACCOUNTS, EACH = 1_000, 10, 20
COUNTS = "SELECT status, host, COUNT(*), SUM(attempts) FROM deliveries GROUP BY status, host"


async def test_unresponsive_host_does_not_delay_deliveries_to_others(office: Office) -> None:
    """Method: both hosts have the same address, but one is called by its name, so the queue sees two hosts."""
    end = trio.Event()

    async def swallow(peer: Peer) -> None:
        await peer.request()
        await end.wait()

    with trio.fail_after(60):
        async with (
            open_upstream_server(swallow) as hole,
            open_upstream_server(always(reply(b"thanks"))) as good,
            open_sender(allow_insecure=True) as sender,
            office.open(sender, timeout_s=50.0) as service,
        ):
            hole_url, good_url = f"http://localhost:{hole.origin.port}/in", f"{good.url}/in"
            accounts = [await office.desk.account() for _ in range(ACCOUNTS)]
            for account in accounts:
                monitor = await office.monitor(account, hole_url)
                await office.queue(monitor, HELD // ACCOUNTS, url=hole_url)
            await until(lambda: len(hole.requests) == HOST_MAX)
            for account in accounts:
                monitor = await office.monitor(account, good_url)
                await office.queue(monitor, EACH, url=good_url)
            counts = await _counts(office)
            while counts.get(("delivered", "127.0.0.1"), (0, 0))[0] < ACCOUNTS * EACH:
                await trio.sleep(0.02)
                counts = await _counts(office)
            assert counts == {
                ("delivered", "127.0.0.1"): (ACCOUNTS * EACH, ACCOUNTS * EACH),
                ("queued", "localhost"): (HELD, 0),
            }
            await until(lambda: service.in_flight() == HOST_MAX)  # the rows of the previous deliveries are gone
            assert len(hole.requests) == hole.open_connections == HOST_MAX
            assert len(good.requests) == ACCOUNTS * EACH
            assert good.connections <= HOST_MAX
            office.stopping = True
            end.set()


async def _counts(office: Office) -> Mapping[tuple[str, str], tuple[int, int]]:
    """Return the number of deliveries by status and host, and the number of their finished attempts."""

    def read(tx: Tx) -> Mapping[tuple[str, str], tuple[int, int]]:
        return {(status, host): (int(count), int(attempts)) for status, host, count, attempts in tx.all(COUNTS)}

    found: Mapping[tuple[str, str], tuple[int, int]] = await office.store.read(read)
    return found
