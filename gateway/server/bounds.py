"""Every limit of the edge in one record, so that no data from a client is stored or awaited without a limit."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits that one server applies to its clients. The last part of each name is the unit."""

    request_line_bytes: int = 16_384
    """A longer request target gets a 414."""
    header_bytes: int = 32_768
    """A request with more bytes of header fields gets a 431."""
    header_count: int = 100
    """A request with more header fields gets a 431."""
    header_s: float = 10.0
    """Maximum time from the first byte of a request to the end of its headers. A slower request gets a 408."""
    idle_s: float = 75.0
    """Maximum time between two requests. After that, the connection closes without a response."""
    body_s: float = 30.0
    """Maximum time without a byte of a body that the app waits for. After that, the request gets a 408."""
    body_bytes_per_s: int = 500
    """At a lower rate, a body uses up `body_s` even while bytes arrive."""
    write_s: float = 30.0
    """Maximum time in which the client reads nothing of its response. After that, the connection is aborted."""
    answer_bytes_per_s: int = 8_192
    """At a lower rate, a response uses up `write_s` even while bytes leave.

    The default is 64 kbit/s, the slowest connection still in use. Until it has been read, a response holds memory and
    one concurrency slot of its key: for a response of 1.5 MB at most three and a half minutes. General web servers
    (HTTP.sys, Kestrel, Apache's mod_reqtimeout) allow 150 to 500 bytes per second, because they must serve browsers on
    bad connections. At that rate it would be more than an hour. Only time in which bytes wait for the client is
    counted, so a stream may be silent for days.
    """
    unsent_bytes: int = 67_108_864
    """Maximum number of bytes held by all responses that wait for their clients.

    Above it, the responses that have made no progress for the longest time are aborted.
    """
    unsent_key_bytes: int = 16_777_216
    """The same limit for one API key. A single response may be longer."""
    unsent_kernel_bytes: int = 65_536
    """Maximum number of bytes that the kernel buffers for a client that does not read.

    Without a limit, the kernel takes up to 4 MB per connection.
    """
    linger_s: float = 1.0
    """How long to read on after a connection's last response while the client still sends.

    The data is dropped. Without this wait, the close could reset the connection and the client lose the response.
    """
    connections: int = 20_000
    """Maximum number of open connections. Above it, idle ones close, and new ones wait in the listener's backlog."""
    pipelined_bytes: int = 65_536
    """Maximum number of bytes that are read ahead after the current request."""
    message_bytes: int = 65_536
    """A longer WebSocket message ends the connection with code 1009 and is not read further."""
    ping_s: float = 20.0
    """Time between two pings on a WebSocket. A client that has not answered by the next ping counts as disconnected."""

    def at_a_stop(self) -> Self:
        """Return shorter limits for a graceful stop, so that a silent client cannot delay it.

        An incomplete request was not executed, so its client may send it again elsewhere. A response has been produced
        and billed, so the client gets more time to read it.
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
        """Return the shortest time limit: the resolution needed by the watch over the connections."""
        return min(self.header_s, self.idle_s, self.body_s, self.write_s)
