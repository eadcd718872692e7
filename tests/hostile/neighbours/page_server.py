"""The sites that both accounts read: a program of its own, so that it delays no measurement.

A node sends each request for `https://HOST/PATH` to `/HOST/PATH` here (`upstreams.egress`). On hosts below
`example.com` the first segment of PATH names a page of `pages.PAGES`; the rest only makes the address new. `HOSTS`
has the hosts of real platforms. Anything else is a 404, such as a robots file.
"""

from __future__ import annotations

import os
from functools import lru_cache

import orjson
import trio

from tests.fakes.upstream_server import Peer, open_upstream_server, reply
from tests.hostile.neighbours import pages

NICE = 5
"""Real sites run on other machines: this one takes less of the node's."""
SITE = ".example.com"
NOT_FOUND = reply(status="404 Not Found")


@lru_cache(maxsize=64)
def page_reply(name: str) -> bytes:
    """The reply with the page of this name, built once."""
    content_type, build = pages.PAGES[name]
    return reply(build(), f"Content-Type: {content_type}")


def reply_to(target: str) -> bytes:
    """The reply to a request for `/HOST/PATH`."""
    host, _, path = target.removeprefix("/").partition("/")
    name, _, rest = path.partition("?")[0].partition("/")
    if host in pages.HOSTS:
        return page_reply(pages.HOSTS[host](path))
    if not host.endswith(SITE) or name not in pages.PAGES:
        return NOT_FOUND
    whole = page_reply(name)
    if name in pages.NUMBERED:
        whole = whole.replace(pages.NUMBER, rest.encode()[: len(pages.NUMBER)].rjust(len(pages.NUMBER), b"0"))
    return whole


async def serve() -> None:
    """Serve until killed; the first line of stdout has the address."""

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
