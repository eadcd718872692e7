"""The platforms of the storm's searches: the sandbox's stand-ins, whose lists have several pages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

import orjson

from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.storm.discover.node import LIKE
from upstreams.sandbox.made import routes_of
from upstreams.sandbox.site import SandboxReply, SandboxRoute, answer, by_host, request_of
from upstreams.sandbox.stand_ins import written_routes

ROWS: Final = 120
"""The number of rows in each list that has pages."""


def _made(slug: str) -> Iterator[SandboxRoute]:
    """Yield the routes of a platform's stand-in, if it has one."""
    file = files("upstreams.sandbox").joinpath("made", f"{slug}.json")
    if file.is_file():
        made: Any = orjson.loads(file.read_bytes())
        calls = [
            {**call, "of": ROWS} if "Once" not in call.get("paging", {"Once": {}}) else call for call in made["calls"]
        ]
        yield from routes_of(slug, {**made, "calls": calls})


class StandIns:
    """Answers every call of a search after a delay."""

    def __init__(self, page_s: float) -> None:
        self._page_s = page_s
        self._routes = by_host((*written_routes(), *(route for slug in LIKE for route in _made(slug))))

    def answer(self, asked: str) -> ScriptedAnswer:
        """Return a page of a search."""
        host, _, target = asked.partition("/")
        return self._answer(answer(self._routes, request_of("GET", host, f"/{target}")))

    def _answer(self, reply: SandboxReply) -> ScriptedAnswer:
        headers = {name.lower(): value for name, value in reply.headers.items()}
        text = isinstance(reply.body, str)
        headers.setdefault("content-type", "text/plain; charset=utf-8" if text else "application/json")
        return ScriptedAnswer(
            reply.status, reply.body.encode() if text else orjson.dumps(reply.body), headers, self._page_s
        )
