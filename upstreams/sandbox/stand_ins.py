"""Finds the stand-in for a host: the generated ones, and the handwritten modules of this package.

A stand-in is loaded when the first request for one of its hosts arrives, because a node calls few of its platforms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import orjson

from upstreams.sandbox.site import Routes, SandboxRoute, by_host

WRITTEN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "github": ("api.github.com", "raw.githubusercontent.com"),
        "hackernews": ("hn.algolia.com", "hacker-news.firebaseio.com"),
        "web": ("api.search.brave.com", "example.com"),
    }
)
"""The modules with handwritten stand-ins, and their hosts."""
_FOLDER = Path(__file__).parent / "made"
_HOST = re.compile(r'"call": "[A-Z]+ ([^/"]+)')
_ALIASES = re.compile(r'"aliases": \{(?:\s*"[^"]*": "[^"]*",?)*\s*\}')
_ALIAS = re.compile(r'"([^"]+)": "')


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


def hosts_of_files() -> dict[str, list[str]]:
    """Return the hosts of each generated stand-in, with its aliases.

    The files are searched and not parsed, because parsing them and compiling their routes takes thirty times as long.
    """
    return {file.stem: _hosts_in(file.read_bytes().decode()) for file in sorted(_FOLDER.glob("*.json"))}


def _hosts_in(text: str) -> list[str]:
    aliases = _ALIASES.search(text)
    return list(dict.fromkeys((*_HOST.findall(text), *(_ALIAS.findall(aliases[0]) if aliases else ()))))


@cache
def _routes_of(name: str) -> tuple[SandboxRoute, ...]:
    if name in WRITTEN:
        written: tuple[SandboxRoute, ...] = import_module(f"{__package__}.{name}").ROUTES
        return written
    from upstreams.sandbox.made import routes_of  # noqa: PLC0415 - only the sandbox needs it, at its first request

    return tuple(routes_of(name, orjson.loads((_FOLDER / f"{name}.json").read_bytes())))
