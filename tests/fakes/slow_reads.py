"""A store whose reads pause between the database and the caller, so that a test can make a change in between."""

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import trio

from storage.store import BatchHandler, DiskSpace, Req, Res, Store, StoreSize, StoreStatistics, Tx

T = TypeVar("T")


class SlowReads:
    """Forwards everything to a real store. Each read sets `has_read` and waits for `go`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.has_read = trio.Event()
        self.go = threading.Event()

    async def read(self, fn: Callable[[Tx], T]) -> T:
        def run(tx: Tx) -> T:
            result = fn(tx)
            trio.from_thread.run_sync(self.has_read.set)
            assert self.go.wait(5)
            return result

        return await self._store.read(run)

    async def write(self, fn: Callable[[Tx], T]) -> T:
        return await self._store.write(fn)

    async def submit(self, handler: BatchHandler[Req, Res], request: Req) -> Res:
        return await self._store.submit(handler, request)

    def submit_nowait(
        self, handler: BatchHandler[Req, Res], request: Req, on_failure: Callable[[], None] | None = None
    ) -> None:
        self._store.submit_nowait(handler, request, on_failure)

    async def ping(self) -> None:
        await self._store.ping()

    def announce(self, note: Mapping[str, str]) -> None:
        self._store.announce(note)

    def statistics(self) -> StoreStatistics:
        return self._store.statistics()

    async def measure(self) -> StoreSize:
        return await self._store.measure()

    async def scrub(self, table: str) -> bool:
        return await self._store.scrub(table)

    async def flush_log(self) -> None:
        await self._store.flush_log()

    async def disk(self) -> DiskSpace | None:
        return await self._store.disk()
