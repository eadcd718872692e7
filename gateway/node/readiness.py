"""Whether a node can serve: what stands in the way, in words for the operator."""

from __future__ import annotations

import trio

from gateway.node.stores import Stores
from storage.errors import StateUnavailable, StorageError
from storage.state import State
from storage.store import Store

READY_WITHIN_S = 2.0


async def unready(books: Stores, state: State | None, draining: trio.Event) -> str | None:
    """As `Readiness`: all that keeps this node from serving."""
    if draining.is_set():
        await trio.lowlevel.checkpoint()
        return "draining"
    state_fault = None if state is None else state.fault or await _state_fault(state)
    store_fault = await _fault_of(books.store)
    faults = [f"{name} down: {why}" for name, why in (("state", state_fault), ("store", store_fault)) if why]
    return "; ".join(faults) or None


async def _state_fault(state: State) -> str | None:
    """One that answers may still take nothing: it is full, or a replica."""
    try:
        with trio.fail_after(READY_WITHIN_S):
            await state.call(b"SET", b"sluice:ready", b"1", b"PX", b"1000")
    except trio.TooSlowError:
        return f"no write was answered in {READY_WITHIN_S:g} s"
    except StateUnavailable as exc:
        return str(exc)
    return None


async def _fault_of(store: Store) -> str | None:
    try:
        with trio.fail_after(READY_WITHIN_S):
            await store.ping()
    except trio.TooSlowError:
        return f"no write was committed in {READY_WITHIN_S:g} s"
    except StorageError as exc:
        return str(exc)
    return None
