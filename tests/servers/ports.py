"""Ports of 127.0.0.1 that nobody has, and that nobody is given by chance.

They lie below those that the kernel gives to who binds port 0 (from 32,768 on), so that a server which a test has
stopped, or has not started yet, finds its port free though other tests run at the same time. A Redis cluster's second
port, 10,000 above, lies below them too.
"""

import socket
from contextlib import ExitStack, suppress
from random import SystemRandom

_FIRST, _END = 10_000, 20_000


def free_ports(count: int) -> list[int]:
    """So many ports that were free a moment ago, all different."""
    random = SystemRandom()  # the module's own generator is seeded by Hypothesis, in each process alike
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = random.randrange(_FIRST, _END)
            with suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
        return ports


def free_port() -> int:
    """A port that was free a moment ago."""
    return free_ports(1)[0]
