"""Ports of 127.0.0.1 that nobody has."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """So many ports that were free a moment ago, all different."""
    with ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [sock.getsockname()[1] for sock in taken]


def free_port() -> int:
    """A port that was free a moment ago."""
    return free_ports(1)[0]
