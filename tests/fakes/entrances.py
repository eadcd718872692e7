"""Admission of several nodes in one process: one store, one Redis, and a separate link for each node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.api.admission import Admission
from gateway.http.request import Caller, Request
from limits.shared_gate import SharedGate, open_shared_gate
from storage.redis.state import RedisState, open_redis
from storage.store import Store
from tests.billing.desk import Desk


@dataclass(slots=True)
class Entrance:
    """One node's keys, balances and admission."""

    desk: Desk
    state: RedisState
    gate: SharedGate
    admission: Admission

    async def admit(self, key: str) -> Request:
        """Admit a request as the API does. The request has a lease until `release`."""
        request = Request("req_1", "GET", "/v1/utility/endpoints", b"", {b"x-api-key": key.encode()}, 0.0)
        await self.run_admission(request)
        return request

    async def run_admission(self, request: Request) -> None:
        """Perform the steps that the API performs."""
        admission = self.admission
        caller = request.caller = Caller(admission.key_of_nowait(request) or await admission.key_of(request))
        if not admission.enter_nowait(caller):
            await admission.enter(request, caller)

    async def admit_and_release(self, key: str) -> Caller:
        """Admit a request and release its lease."""
        request = await self.admit(key)
        assert request.caller is not None
        release(request)
        return request.caller


def release(request: Request) -> None:
    """Release the request's lease, as the API does at the end of each request."""
    if request.caller is not None and request.caller.lease is not None:
        request.caller.lease.release()


@asynccontextmanager
async def open_entrance(
    store: Store, url: str, *, requests: int = 1000, concurrent: int = 100, round_trip_s: float = 5.0
) -> AsyncIterator[Entrance]:
    """Open admission of one node, with long timeouts for a busy machine."""
    async with (
        open_redis(url, round_trip_s=round_trip_s) as state,
        open_shared_gate(state, requests=requests, concurrent=concurrent) as gate,
    ):
        desk = Desk(store, gate)
        state.on_connect(desk.keys.forget_all)
        state.on_connect(desk.balances.forget_all)
        yield Entrance(desk, state, gate, Admission(desk.keys, gate, desk.balances, key_prefix="sl_"))
