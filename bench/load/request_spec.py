"""The requests of a load and the answers that count as good; the same for the closed and the open loop."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit


class Unframed(Exception):
    """An answer carries no Content-Length, so its end cannot be told."""


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """A kind of request, and what every answer to it must look like."""

    url: str
    path: str
    """The request target; `{n}` in it becomes the request's key."""
    keys: str = "one"
    """A name of `bench.load.keys.KEYS`."""
    headers: tuple[tuple[str, str], ...] = ()
    statuses: tuple[int, ...] = (200,)
    """Answers that count as served."""
    tolerated: tuple[int, ...] = ()
    """Answers that may come too, such as refusals under overload."""
    head: str = ""
    """Text in lower case that the head of every served answer but the first must hold, such as `x-cache: hit`."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        at = urlsplit(self.url)
        assert at.hostname is not None
        return at.hostname, at.port or 80

    def requests(self, keys: Iterable[int]) -> Iterator[bytes]:
        """The bytes of one request after the other, each with its key."""
        before, _, after = self.path.partition("{n}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in (("host", urlsplit(self.url).netloc), *self.headers))
        start, end = f"GET {before}".encode(), f"{after} HTTP/1.1\r\n{lines}\r\n".encode()
        if before == self.path:
            return (start + end for _ in keys)
        return (b"%b%d%b" % (start, key, end) for key in keys)


class Tally:
    """Counts answers by what they are. Only the loop that owns it may call it."""

    def __init__(self, spec: RequestSpec) -> None:
        """Nothing is counted yet."""
        self._served = {str(status).encode() for status in spec.statuses}
        self._tolerated = {str(status).encode() for status in spec.tolerated}
        self._head = spec.head.encode()
        self.refused: Counter[str] = Counter()
        """The tolerated answers, by status."""
        self.unexpected: Counter[str] = Counter()
        """Everything that makes a run invalid, by what it is."""

    def note(self, head: bytes, *, first: bool = False) -> bool:
        """Count the answer with this head, in lower case; whether it was served."""
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
    """The head of the answer in `received`, in lower case and with its line ends; None while the answer is not whole.

    Raises:
        Unframed: the head names no Content-Length.
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
    """Whether the server says that it closes the connection after this answer."""
    return b"\r\nconnection: close\r\n" in head
