"""The sites that both accounts read, in a separate program, so that they do not delay the measurement.

A node sends each request for `https://HOST/PATH` to `/HOST/PATH` here (`upstreams.egress`). On hosts below
`example.com`, the first segment of PATH selects a page of `pages.PAGES`, and the rest only makes the URL new. `HOSTS`
has the hosts of real platforms. Everything else, such as a robots file, returns 404.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

import orjson
import trio

from tests.fakes.upstream_server import Peer, open_upstream_server, reply
from tests.hostile.neighbours import pages

NICE = 5
"""Real sites run on other machines, so this one takes less of the node's CPU time."""
SITE = ".example.com"
_PAGE = re.compile(r"(?:^|&)page=(\d+)")
NOT_FOUND = reply(status="404 Not Found")


@lru_cache(maxsize=64)
def page_reply(name: str) -> bytes:
    """Return the reply with the page of this name, built once."""
    content_type, build = pages.PAGES[name]
    return reply(build(), f"Content-Type: {content_type}")


def reply_to(target: str) -> bytes:
    """Return the reply to a request for `/HOST/PATH`."""
    host, _, path = target.removeprefix("/").partition("/")
    way, _, query = path.partition("?")
    name, _, number = way.partition("/")
    if host in pages.HOSTS:
        name, number = pages.HOSTS[host](path), "".join(_PAGE.findall(query))
    elif not host.endswith(SITE) or name not in pages.PAGES:
        return NOT_FOUND
    whole = page_reply(name)
    if name in pages.NUMBERED:
        width = len(pages.NUMBER)
        whole = whole.replace(pages.NUMBER, number.encode()[:width].rjust(width, b"0"))
    return whole


async def serve() -> None:
    """Serve until killed. The first line of stdout contains the address."""

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.request()).split(b" ")[1].decode()
            await peer.send(reply_to(target))

    async with open_upstream_server(script) as server:
        print(orjson.dumps({"url": server.url}).decode(), flush=True)
        await trio.sleep_forever()


def main() -> None:
    """Run the program."""
    os.nice(NICE)
    trio.run(serve)


if __name__ == "__main__":
    main()
