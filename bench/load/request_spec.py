"""The requests of a load and the expected responses, for both the closed and the open loop."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit


class Unframed(Exception):
    """A response without a Content-Length, whose end is therefore unknown."""


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """A kind of request, and the expected responses."""

    url: str
    path: str
    """The request target, in which `{n}` is replaced with the request's key."""
    keys: str = "one"
    """A name of `bench.load.keys.KEYS`."""
    headers: tuple[tuple[str, str], ...] = ()
    statuses: tuple[int, ...] = (200,)
    """Statuses that count as served."""
    tolerated: tuple[int, ...] = ()
    """Statuses that are allowed but not served, such as refusals under overload."""
    head: str = ""
    """Lower-case text that the head of every served response must contain, except the first one. Example: `x-cache:
    hit`."""

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port of the server."""
        at = urlsplit(self.url)
        assert at.hostname is not None
        return at.hostname, at.port or 80

    def requests(self, keys: Iterable[int]) -> Iterator[bytes]:
        """Yield the bytes of one request after another, each with its key."""
        before, _, after = self.path.partition("{n}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in (("host", urlsplit(self.url).netloc), *self.headers))
        start, end = f"GET {before}".encode(), f"{after} HTTP/1.1\r\n{lines}\r\n".encode()
        if before == self.path:
            return (start + end for _ in keys)
        return (b"%b%d%b" % (start, key, end) for key in keys)


class Tally:
    """Counts responses by kind. Only the loop that owns it may call it."""

    def __init__(self, spec: RequestSpec) -> None:
        """Start at zero."""
        self._served = {str(status).encode() for status in spec.statuses}
        self._tolerated = {str(status).encode() for status in spec.tolerated}
        self._head = spec.head.encode()
        self.refused: Counter[str] = Counter()
        """The tolerated responses by status."""
        self.unexpected: Counter[str] = Counter()
        """The responses that make a run invalid, by kind."""

    def note(self, head: bytes, *, first: bool = False) -> bool:
        """Count the response with this head, in lower case, and return whether it was served."""
        status = head[9:12]
        if status not in self._served:
            kind = self.refused if status in self._tolerated else self.unexpected
            kind[status.decode(errors="replace")] += 1
            return False
        if self._head not in head and not first:
            self.unexpected[f"without {self._head.decode()}"] += 1
            return False
        return True


def whole_head(received: bytes) -> bytes | None:
    """Return the head of the response in `received` in lower case, with its line ends; None until it is complete.

    Raises:
        Unframed: The head has no Content-Length.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = received[: end + 2].lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        raise Unframed(head.decode(errors="replace"))
    length = int(head[at + 17 : head.find(b"\r\n", at + 17)])
    return head if len(received) >= end + 4 + length else None


def closes(head: bytes) -> bool:
    """Return whether the server closes the connection after this response."""
    return b"\r\nconnection: close\r\n" in head
