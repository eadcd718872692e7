"""Reloads config.toml. Applies settings that can change while the node runs, and lists those that need a restart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import trio

from gateway.admin.operations import Nothing, OperationRefused
from gateway.calls.execute import BilledCalls
from gateway.config import ConfigError
from gateway.config.settings import Config
from gateway.feed.polling import Polls
from gateway.node.sites import breaker_rules, source_rules
from gateway.node.suppliers import Suppliers, supplier_rules
from gateway.observability.logs import Log
from limits.gate import Gate
from upstreams.cache.response_cache import Cache
from upstreams.fetching.site import Site
from upstreams.fetching.suppliers import Supplier

Renew = Callable[[Config], Collection[str]]
"""Reads the files that are named in settings. Returns the key paths of the settings whose files have changed.

Raises ConfigError.
"""


class Reloadable(Protocol):
    """A part of a running node that accepts changed settings."""

    def takes(self, path: str) -> bool:
        """Return whether this part can apply a change of the setting with this key path."""
        ...

    def apply(self, config: Config) -> None:
        """Apply the settings of `config`. Applying an unchanged setting has no effect."""
        ...


class Reload:
    """Holds the settings in force and replaces them. An invalid file changes nothing."""

    def __init__(self, config: Config, read_config: Callable[[], Config], parts: Iterable[Reloadable]) -> None:
        self._in_force = _leaves(config)
        self._read_config = read_config
        self._parts = tuple(parts)
        self._renew: Renew | None = None

    def renew_with(self, renew: Renew) -> None:
        """Call `renew` at every reload, because a file can change although the setting with its name does not."""
        self._renew = renew

    def run(self) -> dict[str, list[str]]:
        """Read the file, apply the changes, and return `{"applied": [...], "needs_restart": [...]}` with key paths.

        A setting that needs a restart is listed at every reload until the restart.

        Raises:
            ConfigError: the file is invalid. The current settings stay in force.
        """
        new = self._read_config()
        renewed = self._renew(new) if self._renew else ()
        values = _leaves(new)
        changed = sorted(path for path, value in values.items() if value != self._in_force.get(path))
        applied = set(renewed)
        for part in self._parts:
            if paths := [path for path in changed if part.takes(path)]:
                part.apply(new)
                applied.update(paths)
        self._in_force |= {path: values[path] for path in applied}
        return {"applied": sorted(applied), "needs_restart": [path for path in changed if path not in applied]}

    async def operation(self, _args: Nothing) -> dict[str, list[str]]:
        """Run a reload that was requested at the admin address."""
        await trio.lowlevel.checkpoint()
        try:
            return self.run()
        except ConfigError as exc:
            raise OperationRefused("; ".join(exc.lines())) from exc


def _leaves(config: Config) -> dict[str, Any]:
    """Return the values of all settings, by their key paths in the file."""
    values = _flat(msgspec.to_builtins(config, enc_hook=dict))  # the hook converts the read-only mapping of platforms
    return {path.replace("upstreams.platforms.", "upstreams.", 1): value for path, value in values.items()}


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    prefix = f"{path}." if path else ""
    return {name: leaf for key, inner in value.items() for name, leaf in _flat(inner, f"{prefix}{key}").items()}


def reloadable_parts(
    gate: Gate,
    cache: Cache,
    calls: BilledCalls,
    sites: Sequence[Site],
    *,
    log: Log,
    polls: Polls,
    suppliers: Suppliers,
) -> list[Reloadable]:
    """Return the parts of a node that accept changed settings. Each setting belongs to only one of them."""
    return [
        _Limits(gate),
        _LongPolls(polls),
        _CacheSize(cache),
        _RequestTimeout(calls),
        _BreakerRules(sites, suppliers),
        _LogSettings(log),
        *map(_SourceRules, sites),
        _SourceDefaults(),
        *map(_SupplierRules, suppliers.by_name.values()),
    ]


@dataclass(frozen=True, slots=True)
class _Limits:
    gate: Gate

    def takes(self, path: str) -> bool:
        return path in ("limits.requests_per_minute", "limits.concurrent_requests")

    def apply(self, config: Config) -> None:
        limits = config.limits
        self.gate.resize(requests=limits.requests_per_minute, concurrent=limits.concurrent_requests)


@dataclass(frozen=True, slots=True)
class _LongPolls:
    polls: Polls

    def takes(self, path: str) -> bool:
        return path == "limits.long_polls"

    def apply(self, config: Config) -> None:
        self.polls.change(per_key=config.limits.long_polls)


@dataclass(frozen=True, slots=True)
class _CacheSize:
    cache: Cache

    def takes(self, path: str) -> bool:
        return path == "cache.max_bytes"

    def apply(self, config: Config) -> None:
        self.cache.resize(config.cache.max_bytes)


@dataclass(frozen=True, slots=True)
class _RequestTimeout:
    calls: BilledCalls

    def takes(self, path: str) -> bool:
        return path == "server.request_timeout_s"

    def apply(self, config: Config) -> None:
        self.calls.change(timeout_s=config.server.request_timeout_s)


@dataclass(frozen=True, slots=True)
class _BreakerRules:
    sites: Sequence[Site]
    suppliers: Suppliers

    def takes(self, path: str) -> bool:
        return path.startswith("breaker.")

    def apply(self, config: Config) -> None:
        rules = breaker_rules(config)
        for site in self.sites:
            for source in site.sources.values():
                source.breaker.change(rules)
        for supplier in self.suppliers.by_name.values():
            supplier.source.breaker.change(rules)


@dataclass(frozen=True, slots=True)
class _SourceRules:
    site: Site

    def takes(self, path: str) -> bool:
        slug = self.site.platform.slug
        return path in (f"upstreams.{slug}.timeout_s", f"upstreams.{slug}.retries")

    def apply(self, config: Config) -> None:
        settings = config.upstreams.platforms[self.site.platform.slug]
        for name, source in self.site.sources.items():
            source.change(source_rules(settings, name))


@dataclass(frozen=True, slots=True)
class _SupplierRules:
    supplier: Supplier

    def takes(self, path: str) -> bool:
        name = self.supplier.name
        return path in (f"suppliers.{name}.{one}" for one in ("timeout_s", "retries", "daily_budget"))

    def apply(self, config: Config) -> None:
        if (settings := config.suppliers.get(self.supplier.name)) is not None:
            self.supplier.source.change(supplier_rules(settings))
            self.supplier.costs.daily_budget = settings.daily_budget


class _SourceDefaults:
    """Accepts changes of settings that are defaults for all platforms. Other parts apply these settings."""

    def takes(self, path: str) -> bool:
        return path in ("upstreams.defaults.timeout_s", "upstreams.defaults.retries")

    def apply(self, config: Config) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _LogSettings:
    log: Log

    def takes(self, path: str) -> bool:
        return path.startswith("log.")

    def apply(self, config: Config) -> None:
        self.log.change(config.log.level, access=config.log.access)
