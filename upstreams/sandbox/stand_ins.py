"""Finds the stand-in for a host: the generated ones, and the handwritten modules of this package.

A stand-in is loaded when the first request for one of its hosts arrives, because a node calls few of its platforms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

from upstreams.sandbox.made import hosts_of_files, routes_of_file
from upstreams.sandbox.site import Routes, SandboxRoute, by_host

WRITTEN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "github": ("api.github.com", "raw.githubusercontent.com"),
        "hackernews": ("hn.algolia.com", "hacker-news.firebaseio.com"),
        "web": ("api.search.brave.com", "example.com"),
    }
)
"""The modules with handwritten stand-ins, and their hosts."""


class LazyRoutes(Mapping[str, tuple[SandboxRoute, ...]]):
    """The routes of stand-ins by host. `hosts` has the hosts of each stand-in, in the order in which they are tried."""

    def __init__(self, hosts: Mapping[str, Iterable[str]]) -> None:
        self._stand_ins: dict[str, list[str]] = {}
        self._loaded: dict[str, tuple[SandboxRoute, ...]] = {}
        for name, of_stand_in in hosts.items():
            for host in of_stand_in:
                self._stand_ins.setdefault(host, []).append(name)

    def __getitem__(self, host: str) -> tuple[SandboxRoute, ...]:
        if host not in self._loaded:
            found = (one for name in self._stand_ins[host] for one in _routes_of(name) if one.host == host)
            self._loaded[host] = by_host(found)[host]
        return self._loaded[host]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stand_ins)

    def __len__(self) -> int:
        return len(self._stand_ins)


@cache
def load_routes() -> Routes:
    """Return the routes of every stand-in, by host."""
    return LazyRoutes({**WRITTEN, **hosts_of_files()})


def written_routes() -> tuple[SandboxRoute, ...]:
    """Return the routes of the handwritten stand-ins."""
    return tuple(one for name in WRITTEN for one in _routes_of(name))


@cache
def _routes_of(name: str) -> tuple[SandboxRoute, ...]:
    if name not in WRITTEN:
        return tuple(routes_of_file(name))
    routes: tuple[SandboxRoute, ...] = import_module(f"{__package__}.{name}").ROUTES
    return routes
