"""Loading of stand-ins: each one when a request for one of its hosts arrives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import orjson
import pytest

import upstreams.sandbox
from tests.platforms.stand_in import FOLDER
from upstreams.sandbox.made import routes_of
from upstreams.sandbox.site import Routes, SandboxRoute, by_host
from upstreams.sandbox.stand_ins import WRITTEN, LazyRoutes, hosts_of_files, load_routes, written_routes


def routes_of_file(slug: str) -> Iterator[SandboxRoute]:
    return routes_of(slug, orjson.loads((FOLDER / f"{slug}.json").read_bytes()))


def test_table_has_every_handwritten_stand_in_and_its_hosts() -> None:
    found = {}
    for module in iter_modules(upstreams.sandbox.__path__):
        routes = getattr(import_module(f"upstreams.sandbox.{module.name}"), "ROUTES", ())
        if routes:
            found[module.name] = {route.host for route in routes}
    assert {name: set(hosts) for name, hosts in WRITTEN.items()} == found


@pytest.mark.parametrize("slug", hosts_of_files())
def test_hosts_found_in_a_file_are_those_of_its_routes(slug: str) -> None:
    assert set(hosts_of_files()[slug]) == {route.host for route in routes_of_file(slug)}


def test_lazy_routes_equal_the_routes_of_all_stand_ins() -> None:
    made = (route for slug in hosts_of_files() for route in routes_of_file(slug))
    assert shapes(load_routes()) == shapes(by_host((*written_routes(), *made)))


def shapes(routes: Routes) -> dict[str, list[tuple[object, ...]]]:
    return {
        host: [(one.host, one.pattern, one.letters, one.conditions) for one in found] for host, found in routes.items()
    }


def test_unknown_host_has_no_routes() -> None:
    assert LazyRoutes({}).get("a.example") is None
    assert dict(LazyRoutes({})) == {}


ONE_REQUEST = """
import sys
from upstreams.sandbox import stand_ins
from upstreams.sandbox.site import SandboxRequest, answer
routes = stand_ins.load_routes()
assert stand_ins._routes_of.cache_info().currsize == 0, "loaded at the start"
assert "upstreams.sandbox.made" not in sys.modules
query = {"actor": "ada.example"}
reply = answer(routes, SandboxRequest("public.api.bsky.app", "/xrpc/app.bsky.actor.getProfile", query))
assert reply.body["handle"] == "ada.example", reply
assert stand_ins._routes_of.cache_info().currsize == 1, "loaded more than one"
assert "upstreams.sandbox.github" not in sys.modules
"""


def test_request_loads_only_the_stand_in_of_its_host() -> None:
    """Goal: a start takes the same time with many platforms. Method: a new interpreter, because others load more."""
    subprocess.run([sys.executable, "-c", ONE_REQUEST], check=True, timeout=60)
