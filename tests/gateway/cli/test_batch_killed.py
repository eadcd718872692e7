"""A node that is killed during a batch: the next start refunds the whole reservation (decisions 17)."""

from __future__ import annotations

import signal
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import orjson

from tests.gateway.cli.test_stopping import balance
from tests.processes.place import Place
from tests.processes.waiting import wait_until

STORIES = [f"https://news.ycombinator.com/item?id={8_863 + place}" for place in range(20)]
UPSTREAM_CALL = b'sluice_upstream_in_flight{platform="hackernews",source="algolia"} 16'


def test_batch_of_killed_node_is_refunded_at_next_start(place: Place) -> None:
    with place.sandbox(latency_s=30.0) as egress:
        place.configure(upstreams={"egress": egress})
        _, key = place.new_key()
        body = orjson.dumps({"urls": STORIES})
        head = f"POST /v1/prism/post-stats HTTP/1.1\r\nhost: x\r\nx-api-key: {key['key']}\r\n"
        with place.serve() as node:
            address = urlsplit(node.url)
            with socket.create_connection((address.hostname, address.port), timeout=60) as client:
                client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
                wait_until(lambda: UPSTREAM_CALL in node.admin("/metrics").body)
                node.signal(signal.SIGKILL)
                assert node.wait() == -signal.SIGKILL
                with suppress(ConnectionResetError):
                    assert client.recv(1) == b"", "the killed node had begun a response"
    place.configure()
    with place.recovering().serve("--sandbox") as again:
        again.wait_for_recovery()
        (recovered,) = again.logged("recovered")
        assert (recovered["charges"], recovered["credits"]) == (1, len(STORIES))
        assert balance(place) == 100
        assert place.operate("ledger", "verify").exit_code == 0
