"""A node that runs out of file descriptors waits until some are free."""

import os
import resource
import socket
import sys
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.processes.place import Place, Served
from tests.processes.waiting import wait_until

SPARE = 20
WATCHED_S = 1.0
BILLED = "/v1/github/profile?handle=octocat"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux changes the limits of a running process")


def descriptors(node: Served) -> int:
    """Return the number of open descriptors of the node."""
    return len(os.listdir(f"/proc/{node.popen.pid}/fd"))


def cpu_s(node: Served) -> float:
    """Return the CPU time that the node has used."""
    with open(f"/proc/{node.popen.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_node_survives_running_out_of_descriptors(place: Place) -> None:
    """Method: leave the node a few descriptors, use them up with clients, watch its CPU, release the clients."""
    _, key = place.new_key()
    with place.serve("--sandbox") as node:
        parts = urlsplit(node.url)
        limit = descriptors(node) + SPARE
        resource.prlimit(node.popen.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with ExitStack() as clients:
            for _ in range(2 * SPARE):
                clients.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=60))
            wait_until(lambda: descriptors(node) >= limit)
            used_s = cpu_s(node)
            time.sleep(WATCHED_S)
            assert cpu_s(node) - used_s < WATCHED_S / 2
            assert node.popen.poll() is None
            warnings = node.log.read_text().count("Cannot accept connections")
            assert 1 <= warnings <= 3
        wait_until(lambda: descriptors(node) < limit - SPARE // 2)
        assert node.get(BILLED, key["key"]).json["credits_used"] == 1
        assert node.stop() == 0
