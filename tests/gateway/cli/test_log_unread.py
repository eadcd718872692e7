"""A node whose log is read by nobody, goes to a full disk, or was closed: it serves, counts what it drops, and stops.

Method: real processes whose stderr and stdout are what an operator's mishap makes of them.
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
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from tests.fakes.calling import TIMEOUT_S, get
from tests.fakes.sinks import SINKS, Sink, open_sink
from tests.processes.commands import PROJECT, SLUICE
from tests.processes.place import Place, Served
from tests.processes.process import STOP_S
from tests.processes.waiting import wait_until
from tests.servers.ports import free_ports

DRAIN_S = 5
LEAVES_S = 20.0
"""The seconds that a drain, the last try to write the log, and a busy machine take."""
SLOW_S = 30.0
BILLED = "/v1/github/profile?handle=octocat"
LONG_PATH = "/v1/" + "a." * 1_900
FLOOD = 1_500
"""Requests whose lines are more than a node keeps for a log that takes none."""


@contextmanager
def serving(place: Place, *sinks: Sink, **tables: Mapping[str, object]) -> Iterator[Served]:
    """A node that writes to these sinks, and elsewhere to nothing; gone when the block ends."""
    files = {sink.descriptor: sink.file for sink in sinks}
    closing_them = " ".join(f"{number}>&-" for number, file in files.items() if file is None)
    server, admin = free_ports(2)
    place.configure(server={"port": server, "drain_s": DRAIN_S}, admin={"port": admin}, **tables)
    with subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" {closing_them}', "sh", *SLUICE, "serve", "--config", str(place.config)],
        cwd=place.folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "TMPDIR": str(place.folder)},
        stdin=subprocess.DEVNULL,
        stdout=files.get(1) or subprocess.DEVNULL,
        stderr=files.get(2) or subprocess.DEVNULL,
        start_new_session=True,
    ) as popen:
        url, admin_url = f"http://127.0.0.1:{server}", f"http://127.0.0.1:{admin}"
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
    """So many requests, each of which is worth a long line."""
    with closing(HTTPConnection(urlsplit(node.url).netloc, timeout=TIMEOUT_S)) as connection:
        for _ in range(count):
            connection.request("GET", LONG_PATH)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 401


def metric(node: Served, name: str) -> int:
    """One number of the node's metrics."""
    lines = node.admin("/metrics").body.decode().splitlines()
    return int(float(next(line for line in lines if line.startswith(f"{name} ")).split()[1]))


def stop(node: Served) -> float:
    """Tell the node to stop; how long it took to leave as one that has drained."""
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
            assert (dropped > 0) == (kind != "closed")  # what is closed was opened to nothing, which takes all
            assert stop(node) < LEAVES_S
        assert place.told("account", "list")[0]["balance"] == 99


def test_level_reload_works_while_log_is_stalled(place: Place) -> None:
    with open_sink("stalled", 2) as sink, serving(place, sink) as node:
        before = metric(node, "sluice_log_lines_waiting")  # what was said at the start
        flood(node, 3)
        assert metric(node, "sluice_log_lines_waiting") == before + 3
        place.config.write_text(place.config.read_text() + "[log]\naccess = false\n")
        node.signal(signal.SIGHUP)
        wait_until(lambda: metric(node, "sluice_log_lines_waiting") == before + 4)  # that it was reloaded
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
    """Reads a log, and keeps its whole lines."""

    def __init__(self, descriptor: int) -> None:
        self.lines: list[bytes] = []
        self._descriptor = descriptor
        self._rest = b""

    def read_until(self, event: str) -> None:
        """Read on until the last line that was read is of this event."""
        while not (self.lines and orjson.loads(self.lines[-1])["event"] == event):
            *lines, self._rest = (self._rest + os.read(self._descriptor, 65_536)).split(b"\n")
            self.lines += filter(None, lines)


def test_second_signal_ends_node_with_stalled_log(place: Place) -> None:
    """Method: a request that waits for a slow upstream keeps the node from leaving by itself."""
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
            wait_until(lambda: metric(node, "sluice_log_lines_waiting") == before + 1)  # that it drains
            node.signal(signal.SIGTERM)
            assert node.wait() == -signal.SIGTERM
        assert isinstance(asking.exception(), ConnectionError | HTTPException)


def test_rejected_start_ends_with_stalled_log(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, open_sink("stalled", 2) as sink:
        place.configure(server={"port": taken.getsockname()[1]})
        command = (*SLUICE, "serve", "--config", str(place.config))
        ended = subprocess.run(command, cwd=place.folder, stderr=sink.file, timeout=STOP_S, check=False)
        assert ended.returncode == 1


@pytest.mark.parametrize("kind", SINKS)
def test_node_starts_and_stops_with_unread_stdout(place: Place, kind: str) -> None:
    with open_sink(kind, 1) as sink, serving(place, sink) as node:
        assert node.get("/v1/status").status == 200
        assert stop(node) < LEAVES_S


def test_missing_standard_streams_are_not_replaced_by_files_or_sockets(place: Place) -> None:
    """Else its log would be written into them."""
    with (
        open_sink("closed", 0) as stdin,
        open_sink("closed", 1) as stdout,
        open_sink("closed", 2) as stderr,
        serving(place, stdin, stdout, stderr) as node,
    ):
        targets = [os.readlink(f"/proc/{node.popen.pid}/fd/{number}") for number in range(3)]
        assert targets == [os.devnull] * 3
        assert stop(node) < LEAVES_S
    assert Path(place.database).read_bytes().startswith(b"SQLite format 3\0")
