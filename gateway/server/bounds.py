"""Every limit of the edge in one record, so that nothing a client sends is kept or awaited without a bound."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits one server holds its clients to; the unit is the last part of each name."""

    request_line_bytes: int = 16_384
    """A longer request target is answered with 414."""
    header_bytes: int = 32_768
    """More bytes of header fields are answered with 431."""
    header_count: int = 100
    """More header fields are answered with 431."""
    header_s: float = 10.0
    """From the first byte of a request to the end of its headers; past it 408."""
    idle_s: float = 75.0
    """Between two requests; past it the connection closes without a word."""
    body_s: float = 30.0
    """Without one byte of a body the app waits for; past it 408."""
    body_bytes_per_s: int = 500
    """Slower than this, a body's bytes use up `body_s` though some of them move."""
    write_s: float = 30.0
    """While the client reads nothing of its answer; past it the connection is aborted."""
    answer_bytes_per_s: int = 8_192
    """Slower than this, an answer's bytes use up `write_s` though some of them move.

    64 kbit/s, the slowest line that somebody may still have. An answer holds one of its key's places, and memory, until
    it has been read: one of 1.5 MB for three and a half minutes at most. At the 150 to 500 bytes a second of general
    web servers (HTTP.sys, Kestrel, Apache's mod_reqtimeout), which have browsers on bad lines to think of, it would be
    an hour and more. Only time counts in which bytes wait for the client: a stream may be silent for days.
    """
    unsent_bytes: int = 67_108_864
    """Held by answers that wait for their clients; above it those that have taken nothing for longest are aborted."""
    unsent_key_bytes: int = 16_777_216
    """The same of one API key. A single answer may be longer."""
    unsent_kernel_bytes: int = 65_536
    """Taken by the kernel for a client that does not read: left to itself it takes up to 4 MB a connection."""
    linger_s: float = 1.0
    """Behind a connection's last answer, while the client still sends; it is dropped, or the answer could get lost."""
    connections: int = 20_000
    """Open at once; above it idle ones are closed, and new ones wait in the listener's backlog."""
    pipelined_bytes: int = 65_536
    """Unread bytes kept behind the current request."""
    message_bytes: int = 65_536
    """A longer WebSocket message is answered with 1009 and read no further."""
    ping_s: float = 20.0
    """Between two pings on a WebSocket; a client that has not answered one when the next is due is gone."""

    def at_a_stop(self) -> Self:
        """The same, with less patience: who neither sends nor reads must not hold up a stop for long.

        A request that is half there has not been carried out, so its client may send it again elsewhere. An answer was
        carried out and paid: for its reader there is more time.
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
        """The shortest of the time bounds: what the watch over the connections has to resolve."""
        return min(self.header_s, self.idle_s, self.body_s, self.write_s)
