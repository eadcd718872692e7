"""Connections of the open loop on plain sockets: an idle connection closed by the server fails no request."""

import select
import socket
import struct

import pytest

from bench.load.lines import NOTHING, Line, Lines

REQUEST = b"GET / HTTP/1.1\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER settings that turn a close into a reset."""


def next_of(lines: Lines) -> list[bytes | None]:
    """Let ready lines continue, for at most ten seconds."""
    assert select.select([lines.fileno()], [], [], 10)[0]
    return [lines.go_on(line) for line in lines.ready()]


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
def test_idle_connection_closed_by_the_server_is_reopened(*, is_reset: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Lines(server.getsockname()) as lines:
        line = Line()
        for ticket in range(2):
            lines.send(line, ticket, REQUEST)
            assert next_of(lines) == [None]
            peer, _ = server.accept()
            with peer:
                assert peer.recv(100) == REQUEST
                peer.sendall(ANSWER)
                assert next_of(lines) == [b"http/1.1 200 ok\r\ncontent-length: 2\r\n"]
                line.ticket = NOTHING
                if is_reset:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            assert next_of(lines) == [None]
            assert line.sock is None
