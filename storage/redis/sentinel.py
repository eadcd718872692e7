"""Finding the primary that a group of sentinels agrees on."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import trio

from storage.redis.urls import Access, Address
from storage.redis.wire import FAULTS, RedisConnection, open_connection

ASK_S = 0.2

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_primary(sentinels: Sequence[Address], service: str, access: Access) -> AsyncIterator[RedisConnection]:
    """A connection to the primary of a service; the password is the servers', not the sentinels'.

    Raises:
        One of FAULTS: nobody knows a primary, or it does not answer as one.
    """
    async with open_connection(await _find_primary(sentinels, service, access), access) as connection:
        role = await connection.ask(b"ROLE")
        if not isinstance(role, list) or role[0] != b"master":
            raise trio.BrokenResourceError("what the sentinels name is no primary")
        yield connection


async def _find_primary(sentinels: Sequence[Address], service: str, access: Access) -> Address:
    bare = replace(access, username="", password="", db=0)
    for sentinel in sentinels:
        with trio.move_on_after(ASK_S):
            try:
                async with open_connection(sentinel, bare) as connection:
                    told = await connection.ask(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service.encode())
            except FAULTS as exc:
                _log.debug("the sentinel %s:%d does not answer: %s", *sentinel, exc)
                continue
            match told:
                case [bytes() as host, bytes() as port]:
                    return host.decode(), int(port)
    raise trio.BrokenResourceError(f"no sentinel knows the service {service!r}")
