"""The peer of a connection to an upstream. It is separate from the transport, for code that only names hosts."""

from typing import NamedTuple

DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """The peer of a connection: scheme (`http` or `https`), host in lower case, port.

    With an `address`, the connection is made only to that address, and the host is only sent to the peer. This is used
    for hosts whose addresses were checked.
    """

    scheme: str
    host: str
    port: int
    address: str = ""

    @property
    def authority(self) -> str:
        """The value of the Host header: the host, in brackets for IPv6, and the port if it is not the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"
