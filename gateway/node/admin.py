"""The admin address of a node, which reports readiness and metrics."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import trio

from gateway.admin.app import Admin, OwnOperations, Scrape, doorkeeper_of
from gateway.admin.operations import Operations
from gateway.dashboard.operator_pages import OperatorPages
from gateway.node.node import NodeSetting
from gateway.node.stores import Stores
from gateway.runtime import Runtime
from storage.errors import StateUnavailable, StorageError
from storage.state import State
from storage.store import Store
from storage.supervision import Supervision

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

READY_WITHIN_S = 2.0


class NodeReadiness:
    """The readiness check of a node: whether it is stopping, and the health of its state, store, disk and loops."""

    def __init__(self, stores: Stores, state: State | None, supervision: Supervision, stopping: trio.Event) -> None:
        self._store = stores.store
        self._disk = stores.disk
        self._state = state
        self._supervision = supervision
        self._stopping = stopping

    async def check(self) -> str | None:
        """Return all reasons why this node cannot serve, or None if it can. See `Readiness`."""
        if self._stopping.is_set():
            await trio.lowlevel.checkpoint()
            return "draining"
        state_fault = None if self._state is None else self._state.fault or await _state_fault(self._state)
        store_fault = await _store_fault(self._store)
        faults = [f"{name} down: {why}" for name, why in (("state", state_fault), ("store", store_fault)) if why]
        if self._disk.refusal is not None:
            faults.append(f"disk full: {self._disk.refusal}")
        if (loops := self._supervision.fault) is not None:
            faults.append(f"loop down: {loops}")
        return "; ".join(faults) or None


async def _state_fault(state: State) -> str | None:
    """Return the reason why the state accepts no writes, or None if it accepts them.

    A server that responds to reads may still be full, or be a replica.
    """
    try:
        with trio.fail_after(READY_WITHIN_S):
            await state.call(b"SET", b"sluice:ready", b"1", b"PX", b"1000")
    except trio.TooSlowError:
        return f"no write was confirmed within {READY_WITHIN_S:g} s"
    except StateUnavailable as exc:
        return str(exc)
    return None


async def _store_fault(store: Store) -> str | None:
    """Return the reason why the store commits no writes, or None if it commits them."""
    try:
        with trio.fail_after(READY_WITHIN_S):
            await store.ping()
    except trio.TooSlowError:
        return f"no write was committed within {READY_WITHIN_S:g} s"
    except StorageError as exc:
        return str(exc)
    return None


def admin_of(
    setting: NodeSetting,
    operations: Operations,
    stores: Stores,
    state: State | None,
    supervision: Supervision,
    *,
    collectors: Callable[[], Sequence[Collector]],
    runtime: Runtime,
) -> Admin:
    """Return the app of the admin address, which serves the metrics of `collectors`, created for the first scrape."""
    readiness = NodeReadiness(stores, state, supervision, runtime.stopping)
    doorkeeper = doorkeeper_of(setting.config, setting.secrets.admin_token)
    own = OwnOperations(operations, log=runtime.log)
    pages = OperatorPages(setting.secrets.admin_token, own.operate)
    return Admin(doorkeeper, readiness=readiness.check, scrape=_scrape_of(collectors), operate=own.operate, pages=pages)


def _scrape_of(collectors: Callable[[], Sequence[Collector]]) -> Scrape:
    @cache
    def registry() -> CollectorRegistry:
        return _registry_of(collectors())

    async def scrape() -> bytes:
        await trio.lowlevel.checkpoint()
        from prometheus_client import generate_latest  # noqa: PLC0415 - imported with the first scrape

        return generate_latest(registry())

    return scrape


def _registry_of(collectors: Sequence[Collector]) -> CollectorRegistry:
    from importlib.metadata import version  # noqa: PLC0415 - imported with the first scrape, also the next one

    from prometheus_client import CollectorRegistry, Info, ProcessCollector  # noqa: PLC0415

    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    build = Info("sluice_build", "The version of the program and of Python.", registry=registry)
    build.info({"version": version("sluice"), "python": platform.python_version()})
    return registry
