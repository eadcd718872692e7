"""Reloading config.toml: what can change while the node runs changes, what needs a restart is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import trio

from gateway.admin.operations import Nothing, OperationRefused
from gateway.calls.execute import BilledCalls
from gateway.config import ConfigError
from gateway.config.settings import Config
from gateway.feed.polling import Polls
from gateway.node.sites import breaker_rules, source_rules
from gateway.observability.logs import LEVELS, Log
from limits.gate import Gate
from upstreams.cache.response_cache import Cache
from upstreams.fetching.site import Site

Apply = Callable[[Config], None]


class Reload:
    """Knows the settings in force and replaces them; an invalid file changes nothing."""

    def __init__(self, config: Config, read_config: Callable[[], Config], apply: Mapping[str, Apply]) -> None:
        self._in_force = _leaves(config)
        self._read_config = read_config
        self._apply = apply

    def run(self) -> dict[str, list[str]]:
        """Read the file and apply what changed: `{"applied": [...], "needs_restart": [...]}`, key paths in each.

        What needs a restart is named again each time until there was one.

        Raises:
            ConfigError: the file cannot be used; the config in force stays.
        """
        new = self._read_config()
        values = _leaves(new)
        changed = sorted(path for path, value in values.items() if value != self._in_force.get(path))
        applied = [path for path in changed if _rule(path, self._apply) is not None]
        for path in applied:
            rule = _rule(path, self._apply)
            assert rule is not None
            self._apply[rule](new)
            self._in_force[path] = values[path]
        return {"applied": applied, "needs_restart": [path for path in changed if path not in applied]}

    async def operation(self, _args: Nothing) -> dict[str, list[str]]:
        """As an operation of the admin address."""
        await trio.lowlevel.checkpoint()
        try:
            return self.run()
        except ConfigError as exc:
            raise OperationRefused("; ".join(exc.lines())) from exc


def reloadable(
    *, gate: Gate, cache: Cache, calls: BilledCalls, sites: Sequence[Site], log: Log, polls: Polls
) -> dict[str, Apply]:
    """What can be reloaded, by key path or by the beginning of one that ends in a dot."""
    rules: dict[str, Apply] = {
        "limits.requests_per_minute": partial(_change_limits, gate),
        "limits.concurrent_requests": partial(_change_limits, gate),
        "limits.long_polls": lambda new: setattr(polls, "per_key", new.limits.long_polls),
        "cache.max_bytes": lambda new: setattr(cache, "bytes_max", new.cache.max_bytes),
        "server.request_timeout_s": lambda new: setattr(calls, "timeout_s", new.server.request_timeout_s),
        "breaker.": partial(_change_breakers, sites),
        "log.": partial(_change_log, log),
    }
    for site in sites:
        slug = site.platform.slug
        rules |= {f"upstreams.{slug}.{name}": partial(_change_sources, site) for name in ("timeout_s", "retries")}
    return rules


def _change_limits(gate: Gate, new: Config) -> None:
    gate.resize(requests=new.limits.requests_per_minute, concurrent=new.limits.concurrent_requests)


def _change_breakers(sites: Sequence[Site], new: Config) -> None:
    for site in sites:
        for source in site.sources.values():
            source.breaker.rules = breaker_rules(new)


def _change_sources(site: Site, new: Config) -> None:
    for source in site.sources.values():
        source.rules = source_rules(new.upstreams.platforms[site.platform.slug])


def _change_log(log: Log, new: Config) -> None:
    log.level, log.access = LEVELS[new.log.level], new.log.access


def _rule(path: str, apply: Mapping[str, Apply]) -> str | None:
    return next((rule for rule in apply if path == rule or (rule.endswith(".") and path.startswith(rule))), None)


def _leaves(config: Config) -> dict[str, Any]:
    """Every setting by its key path in the file."""
    values = _flat(msgspec.to_builtins(config, enc_hook=dict))  # the hook is for the read-only mapping of platforms
    return {path.replace("upstreams.platforms.", "upstreams.", 1): value for path, value in values.items()}


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    prefix = f"{path}." if path else ""
    return {name: leaf for key, inner in value.items() for name, leaf in _flat(inner, f"{prefix}{key}").items()}
