"""The end of a connection to an upstream, apart from what connects: who only names hosts loads no more."""

from typing import NamedTuple

DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """The end of a connection: scheme (`http` or `https`), host in lower case, port.

    With an `address` the connection goes there and nowhere else, and the host is only named to the peer: that is for
    hosts whose addresses were checked.
    """

    scheme: str
    host: str
    port: int
    address: str = ""

    @property
    def authority(self) -> str:
        """The host as the Host header names it: with brackets for IPv6, with the port when it is not the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"
