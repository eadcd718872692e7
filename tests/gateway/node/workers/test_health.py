"""A worker that hangs is killed and replaced. The workers here are small programs with an admin address."""

import signal
from functools import partial

import trio

from gateway.node.workers.supervisor import ASKS, kill_hung
from tests.gateway.node.workers.test_slots import NEVER_READY, Supervised, running

SILENT_S = 3.0
UNWELL = """
import http.server, json, sys, threading

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"event": "listening", "admin_url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
sys.stdin.read()
"""
"""A worker that answers every request with an error."""


async def test_hung_worker_is_replaced_and_responsive_one_kept() -> None:
    supervised = Supervised(UNWELL)
    async with running(supervised) as slots, trio.open_nursery() as nursery:
        nursery.start_soon(partial(kill_hung, slots, supervised.log, silent_s=SILENT_S))
        await slots.all_ready.wait()
        hung, other = supervised.pids()
        assert slots.slots[0].process is not None
        slots.slots[0].process.send_signal(signal.SIGSTOP)
        (event,) = await supervised.wait_events("worker_hung", 1)
        assert (event["worker"], event["pid"]) == (0, hung)
        await supervised.wait_events("worker_ready", 3)
        await trio.sleep(1.5 * SILENT_S)
        replaced, still = supervised.pids()
        assert (still, replaced != hung) == (other, True)
        (died,) = supervised.events("worker_died")
        assert died["ended"] == "was ended by SIGKILL"
        assert len(supervised.events("worker_hung")) == 1
        nursery.cancel_scope.cancel()


async def test_worker_with_a_short_pause_survives() -> None:
    supervised = Supervised(UNWELL, count=1)
    async with running(supervised) as slots, trio.open_nursery() as nursery:
        nursery.start_soon(partial(kill_hung, slots, supervised.log, silent_s=SILENT_S))
        await slots.all_ready.wait()
        process = slots.slots[0].process
        assert process is not None
        for _ in range(3):
            process.send_signal(signal.SIGSTOP)
            await trio.sleep(SILENT_S / ASKS)
            process.send_signal(signal.SIGCONT)
            await trio.sleep(2 * SILENT_S / ASKS)
        assert slots.slots[0].process is process
        assert not supervised.events("worker_hung")
        nursery.cancel_scope.cancel()


async def test_starting_worker_is_not_killed_and_watch_ends_on_stop() -> None:
    supervised = Supervised(NEVER_READY)
    async with running(supervised) as slots:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(kill_hung, slots, supervised.log, silent_s=0.1))
            await trio.sleep(0.5)
            slots.stopping.set()
        assert not supervised.events("worker_hung")
