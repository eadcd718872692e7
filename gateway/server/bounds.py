"""The limits of the edge. Everything that the edge stores for a client, and every wait for a client, has a limit."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits that a server applies to its clients. Each name ends with the unit."""

    request_line_bytes: int = 16_384
    """Maximum size of a request target. A longer one gets 414."""
    header_bytes: int = 32_768
    """Maximum size of all header fields together. A request with more gets 431."""
    header_count: int = 100
    """Maximum number of header fields. A request with more gets 431."""
    header_s: float = 10.0
    """Maximum time from the first byte of a request to the end of its headers. A slower request gets 408."""
    idle_s: float = 75.0
    """Maximum time between two requests. After that, the connection closes without a response."""
    body_s: float = 30.0
    """Maximum time without a byte of a body that the app waits for. After that, the request gets 408."""
    body_bytes_per_s: int = 500
    """Minimum rate of a body. Below this rate, `body_s` runs out even while bytes arrive."""
    write_s: float = 30.0
    """Maximum time during which the client reads nothing of its response. After that, the connection is aborted."""
    answer_bytes_per_s: int = 8_192
    """Minimum rate at which a client must read its response.

    Below this rate, `write_s` runs out even while bytes are sent.

    The default is 64 kbit/s, the rate of the slowest connections still in use. Until the client has read the response,
    the response occupies memory and one concurrency slot of its key. At the default rate, a response of 1.5 MB does so
    for at most three and a half minutes.

    General web servers (HTTP.sys, Kestrel, Apache's mod_reqtimeout) allow 150 to 500 bytes per second, because they
    must serve browsers on bad connections. At that rate, the same response would take more than an hour.

    Time counts only while bytes wait for the client, so a stream may be silent for days.
    """
    unsent_bytes: int = 67_108_864
    """Maximum number of bytes in memory for all responses that wait for their clients.

    Above this limit, responses are aborted, beginning with the one that has made no progress for the longest time.
    """
    unsent_key_bytes: int = 16_777_216
    """Maximum number of bytes of waiting responses for each API key. A single response may exceed it."""
    unsent_kernel_bytes: int = 65_536
    """Maximum number of bytes that the kernel buffers for a client that does not read.

    Without a limit, the kernel takes up to 4 MB per connection.
    """
    linger_s: float = 1.0
    """How long to read and drop data that a client still sends after its connection's last response.

    Closing the connection immediately could reset it, and the client could lose the response.
    """
    connections: int = 20_000
    """Maximum number of open connections.

    At the limit, idle ones are closed, and new ones wait in the listener's backlog.
    """
    pipelined_bytes: int = 65_536
    """Maximum number of bytes to read after the current request, before its response is complete."""
    message_bytes: int = 65_536
    """Maximum size of a WebSocket message.

    A longer one is not read completely, and ends the connection with code 1009.
    """
    ping_s: float = 20.0
    """Time between two pings on a WebSocket. A client that has not answered by the next ping counts as disconnected."""

    def at_a_stop(self) -> Self:
        """Return shorter limits for a graceful stop, so that a silent client cannot delay it.

        An incomplete request was not executed, so its client can send it to another node. A response was already
        produced and billed, so its client gets more time to read it.
        """
        return replace(
            self,
            header_s=min(self.header_s, 1.0),
            body_s=min(self.body_s, 1.0),
            write_s=min(self.write_s, 5.0),
            linger_s=min(self.linger_s, 0.5),
        )

    @property
    def shortest_s(self) -> float:
        """Return the shortest time limit, which determines how often `Edge.watch` checks the connections."""
        return min(self.header_s, self.idle_s, self.body_s, self.write_s)
