"""Reloading: each changed setting is applied to its part, and no other part changes."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from gateway.admin.operations import Nothing, OperationRefused
from gateway.config.errors import ConfigError, Problem
from gateway.config.settings import CacheSettings, Config, LimitSettings
from gateway.node.reload import Reload, Reloadable


@dataclass
class Part:
    """Applies the settings below one key path, and records every config that it gets."""

    prefix: str
    applied: list[Config] = field(default_factory=list)

    def takes(self, path: str) -> bool:
        return path.startswith(self.prefix)

    def apply(self, config: Config) -> None:
        self.applied.append(config)


def reload_of(new: Config, *parts: Reloadable) -> Reload:
    return Reload(Config(), lambda: new, parts)


def test_part_gets_the_new_config_once_for_its_settings() -> None:
    new = msgspec.structs.replace(Config(), limits=LimitSettings(requests_per_minute=7, concurrent_requests=3))
    limits, cache = Part("limits."), Part("cache.")
    result = reload_of(new, limits, cache).run()
    assert result == {"applied": ["limits.concurrent_requests", "limits.requests_per_minute"], "needs_restart": []}
    assert (limits.applied, cache.applied) == ([new], [])


def test_applied_setting_is_listed_once_and_restart_setting_always() -> None:
    new = msgspec.structs.replace(
        Config(), limits=LimitSettings(requests_per_minute=7), cache=CacheSettings(max_bytes=5)
    )
    reload = reload_of(new, Part("limits."))
    assert reload.run() == {"applied": ["limits.requests_per_minute"], "needs_restart": ["cache.max_bytes"]}
    assert reload.run() == {"applied": [], "needs_restart": ["cache.max_bytes"]}


async def test_invalid_file_changes_nothing_and_fails_the_operation() -> None:
    def read() -> Config:
        raise ConfigError("config.toml", (Problem("limits.requests_per_minute", "not a number"),))

    part = Part("")
    with pytest.raises(OperationRefused, match="not a number"):
        await Reload(Config(), read, [part]).operation(Nothing())
    assert part.applied == []
