"""`sluice check`: reports everything that is wrong or doubtful in a config before a node starts with it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import click

from gateway.cli.run import (
    Refusal,
    complain,
    config_option,
    credentials_by_platform,
    doubt_of_secret,
    read_config,
    run,
    say,
)
from gateway.config import Config
from gateway.config.certificate import certificate_doubts
from gateway.config.doubts import doubts_of
from gateway.config.settings import MEMORY
from storage.errors import StorageError, reason_of
from storage.opening import exposures_of, try_store
from upstreams.index import load_indexed

_WITHIN_S = 5.0
_UNREACHED = (OSError, StorageError)


@click.command()
@config_option
@click.option("--connect", is_flag=True, help="Also reach the store, the shared state and each enabled platform.")
def check(config_path: str | None, connect: bool) -> None:
    """Validate the config, the secret and the platforms.

    Exit 2 with a line for each problem. Doubtful settings only cause warnings.
    """
    config = read_config(config_path, to_serve=True)
    doubt = doubt_of_secret(config, exit_code=2)
    of_tls = certificate_doubts(config.server, time.time())
    of_index: list[str] = []
    of_settings = doubts_of(config, os.environ, credentials_by_platform(load_indexed(of_index.append)))
    of_browser = _doubts_of_browser(config.web.browser_url)
    doubts = [
        *exposures_of(config.store.url),
        *([doubt] if doubt else []),
        *of_tls,
        *of_settings,
        *of_index,
        *of_browser,
    ]
    complain(*(f"warning: {each}" for each in doubts))
    say("the config is valid")
    if connect:
        _connect(config)


def _doubts_of_browser(url: str) -> Iterator[str]:
    """Warn about a local browser without a memory limit, because a page's script could use all memory."""
    parts = urlsplit(url)
    if parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        return
    from upstreams.web.browser.processes import listening_process, memory_limit_bytes

    pid = listening_process(parts.port or 80)
    with suppress(OSError):  # The machine may have no cgroups.
        if pid is not None and memory_limit_bytes(pid) is None:
            yield f"web.browser_url: the browser (process {pid}) has no memory limit; set one, such as MemoryMax="


def _connect(config: Config) -> None:
    """Connect to every service that a node uses, and print the result. Raises Refusal with a line for each failure."""
    logging.disable(logging.WARNING)  # Hide warnings from libraries, because failures are reported below.
    found = run(partial(_reach_all, config))
    for name, fault in found.items():
        if fault is None:
            say(f"{name}: reachable")
    if faults := [f"{name}: {fault}" for name, fault in found.items() if fault is not None]:
        raise Refusal(*faults)


async def _reach_all(config: Config) -> dict[str, str | None]:
    """Try all targets concurrently. Return, by name, why each is unreachable, or None if it is reachable."""
    import trio

    found: dict[str, str | None] = {}

    async def reach(name: str, attempt: Callable[[], Awaitable[object]]) -> None:
        try:
            with trio.fail_after(_WITHIN_S):
                await attempt()
            found[name] = None
        except trio.TooSlowError:
            found[name] = f"no response within {_WITHIN_S:g} s"
        except (*_UNREACHED, trio.BrokenResourceError) as exc:
            found[name] = reason_of(exc)
        except BaseExceptionGroup as group:  # Nurseries inside the attempts wrap their errors in groups.
            unreached, other = group.split(_UNREACHED)
            if unreached is None or other is not None:
                raise
            found[name] = reason_of(unreached)

    tried = {"store": partial(trio.to_thread.run_sync, try_store, config.store.url, abandon_on_cancel=True)}
    if config.state.url != MEMORY:
        tried["state"] = partial(_reach_state, config.state.url)
    if config.web.browser_url:
        tried[f"web.browser_url ({config.web.browser_url})"] = partial(_reach_browser, config.web.browser_url)
    tried |= {f"{name} ({url})": partial(_reach_host, url, proxy) for name, url, proxy in _hosts(config)}
    names = list(tried)
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(reach, name, tried[name])
    return {name: found[name] for name in names}


async def _reach_state(url: str) -> None:
    from gateway.node.state import open_state
    from storage.supervision import unsupervised

    async with open_state(url, keep=unsupervised) as state:
        if state is not None:
            await state.call(b"EXISTS", b"sluice:ready")


async def _reach_browser(url: str) -> None:
    from upstreams.web.browser.browser import try_browser

    await try_browser(url)


async def _reach_host(url: str, proxy: str) -> None:
    """Connect to a host, through the proxy unless it is empty; with https, also verify its certificate."""
    from upstreams.transport.pooled import try_host
    from upstreams.transport.proxy import read_proxy

    await try_host(url, read_proxy(proxy) if proxy else None)


def _hosts(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield each platform and supplier that is enabled, with the URL of each host and the proxy, or only the egress."""
    from upstreams.composites import composite_slugs
    from upstreams.suppliers import load_interface

    if config.upstreams.egress:
        yield "upstreams.egress", config.upstreams.egress, ""
        return
    others = composite_slugs()
    for platform in load_indexed():
        settings = config.upstreams.platforms[platform.slug]
        if settings.enabled and platform.slug not in others:
            fixed = (url for name, url in platform.sources.items() if platform.has_fixed_host(name))
            hosts = dict.fromkeys(f"https://{urlsplit(url).netloc}" for url in fixed)
            yield from ((f"upstreams.{platform.slug}", host, settings.proxy) for host in hosts)
    for name, supplier in config.suppliers.items():
        if supplier.enabled:
            yield f"suppliers.{name}", supplier.base_url or load_interface(supplier.interface).base_url, supplier.proxy
