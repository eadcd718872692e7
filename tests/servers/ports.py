"""Free ports of 127.0.0.1 that the kernel does not assign by chance.

They are below the ports that the kernel assigns to sockets bound to port 0 (from 32,768 on). A server that a test has
stopped, or not started yet, therefore finds its port free although other tests run at the same time. The second port of
a Redis cluster, 10,000 above, is below that limit too.
"""

import socket
from contextlib import ExitStack, suppress
from random import SystemRandom

_FIRST, _END = 10_000, 20_000


def free_ports(count: int) -> list[int]:
    """Return this many different ports that were free a moment ago."""
    random = SystemRandom()  # Hypothesis seeds the generator of the `random` module identically in each process
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = random.randrange(_FIRST, _END)
            with suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
        return ports


def free_port() -> int:
    """Return a port that was free a moment ago."""
    return free_ports(1)[0]
