"""Every limit of the edge in one record, so that no data from a client is stored or awaited without a limit."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one server for its clients. The last part of each name is the unit."""

    request_line_bytes: int = 16_384
    """A longer request target gets a 414."""
    header_bytes: int = 32_768
    """More bytes of header fields get a 431."""
    header_count: int = 100
    """More header fields get a 431."""
    header_s: float = 10.0
    """From the first byte of a request to the end of its headers. After that, 408."""
    idle_s: float = 75.0
    """Between two requests. After that, the connection closes without a response."""
    body_s: float = 30.0
    """Without any byte of a body that the app waits for. After that, 408."""
    body_bytes_per_s: int = 500
    """At a lower rate, a body uses up `body_s` even while bytes arrive."""
    write_s: float = 30.0
    """While the client reads nothing of its response. After that, the connection is aborted."""
    answer_bytes_per_s: int = 8_192
    """At a lower rate, a response uses up `write_s` even while bytes leave.

    64 kbit/s, the slowest connection still in use. A response holds memory and one of its key's places until it has
    been read: three and a half minutes at most for one of 1.5 MB. At the 150 to 500 bytes a second of general web
    servers (HTTP.sys, Kestrel, Apache's mod_reqtimeout), which must serve browsers on bad connections, it would be an
    hour and more. Only time in which bytes wait for the client is counted, so a stream may be silent for days.
    """
    unsent_bytes: int = 67_108_864
    """Held by responses that wait for their clients.

    Above it, those that have made no progress for longest are aborted.
    """
    unsent_key_bytes: int = 16_777_216
    """The same limit for one API key. A single response may be longer."""
    unsent_kernel_bytes: int = 65_536
    """Buffered by the kernel for a client that does not read.

    Without a limit, the kernel takes up to 4 MB per connection.
    """
    linger_s: float = 1.0
    """After a connection's last response, while the client still sends.

    The data is dropped, or the response could get lost.
    """
    connections: int = 20_000
    """Open connections. Above it, idle ones are closed, and new ones wait in the listener's backlog."""
    pipelined_bytes: int = 65_536
    """Unread bytes kept after the current request."""
    message_bytes: int = 65_536
    """A longer WebSocket message gets a 1009 and is not read further."""
    ping_s: float = 20.0
    """Between two pings on a WebSocket. A client that has not answered a ping by the next one counts as gone."""

    def at_a_stop(self) -> Self:
        """Return shorter limits for a stop, so that a silent client cannot delay it.

        An incomplete request was not executed, so its client may send it again elsewhere. A response was produced and
        billed, so its reader gets more time.
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
