"""A node whose log is not read, on a full disk, or closed: it serves, counts dropped lines, and stops.

Method: real processes with broken stderr and stdout.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import orjson
import pytest

from tests.fakes.calling import TIMEOUT_S, get
from tests.fakes.sinks import SINKS, Sink, open_sink
from tests.processes.commands import SLUICE
from tests.processes.place import Place, Served
from tests.processes.process import STOP_S
from tests.processes.waiting import wait_until
from tests.servers.ports import free_ports

DRAIN_S = 5
LEAVES_S = 20.0
"""Seconds for a drain, the last attempt to write the log, and a slow machine."""
SLOW_S = 30.0
BILLED = "/v1/github/profile?handle=octocat"
LONG_PATH = "/v1/" + "a." * 1_900
FLOOD = 1_500
"""Number of requests whose lines exceed the log's buffer."""


@contextmanager
def serving(place: Place, *sinks: Sink, **tables: Mapping[str, object]) -> Iterator[Served]:
    """Run a node with these sinks, and without other output, until the block ends."""
    files = {sink.descriptor: sink.file for sink in sinks}
    server, admin = free_ports(2)
    url, admin_url = f"http://127.0.0.1:{server}", f"http://127.0.0.1:{admin}"
    place.configure(server={"port": server, "drain_s": DRAIN_S}, admin={"port": admin}, **tables)
    with open(os.devnull, "wb") as nothing:
        out, err = (files.get(number) or nothing.fileno() for number in (1, 2))
        closed = [number for number, file in files.items() if file is None]
        arguments = ("serve", "--config", str(place.config))
        popen = place.commands.start(
            arguments, folder=place.folder, environ=place._environ({}), out=out, err=err, closed=closed
        )
    with popen:
        try:
            wait_until(lambda: popen.poll() is not None or is_ready(admin_url))
            assert popen.poll() is None
            yield Served(popen, place.folder / "none", url=url, admin_url=admin_url)
        finally:
            popen.kill()


def is_ready(admin_url: str) -> bool:
    try:
        return get(f"{admin_url}/readyz").status == 200
    except ConnectionError:
        return False


def flood(node: Served, count: int = FLOOD) -> None:
    """Send requests that each log a long line."""
    with closing(HTTPConnection(urlsplit(node.url).netloc, timeout=TIMEOUT_S)) as connection:
        for _ in range(count):
            connection.request("GET", LONG_PATH)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 401


def metric(node: Served, name: str) -> int:
    """Read one metric of the node."""
    lines = node.admin("/metrics").body.decode().splitlines()
    return int(float(next(line for line in lines if line.startswith(f"{name} ")).split()[1]))


def stop(node: Served) -> float:
    """Stop the node and return how long it took to leave after draining."""
    began_at = time.monotonic()
    assert node.stop() == 0
    return time.monotonic() - began_at


@pytest.mark.parametrize("kind", SINKS)
def test_node_serves_and_stops_with_any_log_sink(place: Place, kind: str) -> None:
    with place.sandbox() as egress, open_sink(kind, 2) as sink:
        _, key = place.new_key()
        with serving(place, sink, upstreams={"egress": egress}) as node:
            assert node.get("/v1/status").status == 200
            assert node.get(BILLED, key["key"]).json["credits_used"] == 1
            flood(node)
            dropped = metric(node, "sluice_log_lines_dropped_total")
            assert (dropped > 0) == (
                kind != "closed"
            )  # a closed stream was opened to /dev/null, which accepts everything
            assert stop(node) < LEAVES_S
        assert place.json_of("account", "list")[0]["balance"] == 99


def test_log_access_reload_works_while_log_is_stalled(place: Place) -> None:
    with open_sink("stalled", 2) as sink, serving(place, sink) as node:
        before = metric(node, "sluice_log_lines_waiting")  # lines from the start
        flood(node, 3)
        assert metric(node, "sluice_log_lines_waiting") == before + 3
        place.config.write_text(place.config.read_text() + "[log]\naccess = false\n")
        node.signal(signal.SIGHUP)
        wait_until(lambda: metric(node, "sluice_log_lines_waiting") == before + 4)  # the line about the reload
        flood(node, 3)
        assert metric(node, "sluice_log_lines_waiting") == before + 4
        assert stop(node) < LEAVES_S


def test_resumed_log_reports_missing_lines_in_place(place: Place) -> None:
    with open_sink("stalled", 2) as sink, serving(place, sink) as node:
        flood(node)
        dropped = metric(node, "sluice_log_lines_dropped_total")
        assert dropped > 0
        lines = LineReader(sink.unread)
        lines.read_until("log_lines_dropped")
        assert node.get("/v1/status").status == 200
        lines.read_until("request")
        wait_until(lambda: metric(node, "sluice_log_lines_waiting") == 0)
        assert stop(node) < LEAVES_S
    events = [orjson.loads(line) for line in lines.lines]
    (missing,) = [event for event in events if event["event"] == "log_lines_dropped"]
    assert missing["lines"] == dropped
    at = events.index(missing)
    paths = [event["path"] for event in events if event["event"] == "request"]
    assert paths == [LONG_PATH] * (FLOOD - dropped) + ["/v1/status"]
    assert [event["path"] for event in events[at + 1 :] if event["event"] == "request"] == ["/v1/status"]


class LineReader:
    """Reads a log and keeps its complete lines."""

    def __init__(self, descriptor: int) -> None:
        self.lines: list[bytes] = []
        self._descriptor = descriptor
        self._rest = b""

    def read_until(self, event: str) -> None:
        """Read until the last line is of this event."""
        while not (self.lines and orjson.loads(self.lines[-1])["event"] == event):
            *lines, self._rest = (self._rest + os.read(self._descriptor, 65_536)).split(b"\n")
            self.lines += filter(None, lines)


def test_second_signal_ends_node_with_stalled_log(place: Place) -> None:
    """Method: a request that waits for a slow upstream keeps the node from exiting."""
    with (
        ThreadPoolExecutor(1) as threads,
        place.sandbox(latency_s=SLOW_S) as egress,
        open_sink("stalled", 2) as sink,
    ):
        _, key = place.new_key()
        with serving(place, sink, upstreams={"egress": egress}) as node:
            asking = threads.submit(node.get, BILLED, key["key"])
            wait_until(lambda: metric(node, "sluice_leases") == 1)
            before = metric(node, "sluice_log_lines_waiting")
            node.signal(signal.SIGTERM)
            wait_until(lambda: metric(node, "sluice_log_lines_waiting") == before + 1)  # the line about draining
            node.signal(signal.SIGTERM)
            assert node.wait() == -signal.SIGTERM
        assert isinstance(asking.exception(), ConnectionError | HTTPException)


def test_rejected_start_ends_with_stalled_log(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, open_sink("stalled", 2) as sink:
        place.configure(server={"port": taken.getsockname()[1]})
        assert sink.file is not None
        arguments = ("serve", "--config", str(place.config))
        with place.commands.start(arguments, folder=place.folder, environ={}, err=sink.file) as ended:
            assert ended.wait(STOP_S) == 1


@pytest.mark.parametrize("kind", SINKS)
def test_node_starts_and_stops_with_unread_stdout(place: Place, kind: str) -> None:
    with open_sink(kind, 1) as sink, serving(place, sink) as node:
        assert node.get("/v1/status").status == 200
        assert stop(node) < LEAVES_S


def test_missing_standard_streams_are_not_replaced_by_files_or_sockets(place: Place) -> None:
    """Otherwise the node's log would be written into them. Method: a new interpreter starts without the streams."""
    (admin,) = free_ports(1)
    place.configure(admin={"port": admin})
    command = ["/bin/sh", "-c", 'exec "$@" 0>&- 1>&- 2>&-', "sh", *SLUICE, "serve", "--config", str(place.config)]
    with subprocess.Popen(command, cwd=place.folder, env=place._environ({}), start_new_session=True) as popen:
        try:
            wait_until(lambda: popen.poll() is not None or is_ready(f"http://127.0.0.1:{admin}"))
            targets = [os.readlink(f"/proc/{popen.pid}/fd/{number}") for number in range(3)]
            assert targets == [os.devnull] * 3
            popen.send_signal(signal.SIGTERM)
            assert popen.wait(LEAVES_S) == 0
        finally:
            popen.kill()
    assert place.database.read_bytes().startswith(b"SQLite format 3\0")
