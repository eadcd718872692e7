"""Measures the CPU per row of a list, beyond the cost of a single record: `python -m bench.rows`.

A row is decoded, read, shaped and encoded in this process. For comparison, the plain stack only parses and encodes the
same body.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from bench.core.results import Mark
from gateway.calls.shaping import shape
from gateway.http import envelope
from upstreams.fetching.answers import read_answer
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Args, Value
from upstreams.model.steps import Call, Missing
from upstreams.platforms import load_platform
from upstreams.sandbox.rehearse import example_values, rehearsed
from upstreams.transport.http import HttpAnswer

LISTS: Final = {
    "bluesky/user/posts": "feed",
    "hackernews/search": "hits",
    "github/repo/issues": "",
    "mastodon/hashtag": "",
    "gitlab/repo/issues": "",
    "lemmy/posts": "posts",
}
"""Lists that need only one upstream call, with the path of the rows in the body."""
ROWS: Final = 100
KNOWN_US: Final = 6.0
NEW_US: Final = 10.0
_BODIES: Final = 40
"""The number of bodies with distinct texts.

They have more texts than the node caches (`upstreams.model.computed`).
"""
_ROUNDS: Final = 15
_WORDS_MIN: Final = 20
NOW_AT: Final = 1_735_689_600.0


@dataclass(frozen=True, slots=True)
class RowCost:
    """Microseconds per row: with known texts, with new texts, and in the plain stack."""

    id: str
    known_us: float
    new_us: float
    plain_us: float


@dataclass(frozen=True, slots=True)
class RowBodies:
    """The bodies of one list, and the node's work for each, from the received body to the encoded response."""

    page: Callable[[bytes], bytes]
    single: Callable[[bytes], bytes]
    full: bytes
    """A body with a hundred rows."""
    alone: bytes
    """A body with one row."""
    changed: Sequence[bytes]
    """Bodies of a hundred rows, each with distinct texts."""


def prepared(id_: str, bodies: int) -> RowBodies:
    """Return a list's bodies, with `bodies` distinct ones. Its code is warmed up."""
    slug, _, resource = id_.partition("/")
    platform = load_platform(slug)
    endpoint = next(one for one in platform.endpoints if one.resource == resource)
    body = orjson.loads(orjson.dumps(rehearsed(platform, endpoint, NOW_AT)[1][0]))
    many, one = (_sized(body, LISTS[id_], rows) for rows in (ROWS, 1))
    page, single = (_reading(platform, endpoint, rows) for rows in (ROWS, 1))
    changed = [orjson.dumps(_with_new_texts(many, f" {nth} ")) for nth in range(bodies)]
    raw, alone = orjson.dumps(many), orjson.dumps(one)
    for each in (alone, raw):
        single(each)
        page(each)
    gc.collect()
    gc.freeze()  # as in a node, objects created at startup are not garbage-collected
    return RowBodies(page, single, raw, alone, changed)


def measure_rows(id_: str, *, bodies: int = _BODIES, rounds: int = _ROUNDS) -> RowCost:
    """Return the cost per row of this list: the best of several rounds over this many bodies."""
    of = prepared(id_, bodies)
    for each in of.changed:  # the last texts differ from the first texts
        of.page(each)
    full = [of.full] * bodies
    works = ((of.single, [of.alone] * bodies), (of.page, full), (of.page, of.changed), (_plain, full))
    alone_us, known_us, new_us, plain_us = _best_us(works, rounds)
    between = ROWS - 1
    return RowCost(id_, (known_us - alone_us) / between, (new_us - alone_us) / between, plain_us / ROWS)


def _plain(body: bytes) -> bytes:
    """Return a body after parsing and encoding it, as the plain stack does."""
    return orjson.dumps(orjson.loads(body))


def row_marks(costs: Iterable[RowCost]) -> Iterator[Mark]:
    """Yield the marks for these costs."""
    for cost in costs:
        beside = f"plain stack {cost.plain_us:.1f}"
        yield Mark(f"a row of {cost.id}, texts known ({beside})", cost.known_us, KNOWN_US, "us")
        yield Mark(f"a row of {cost.id}, texts new ({beside})", cost.new_us, NEW_US, "us")


def _sized(body: Any, at: str, rows: int) -> Any:
    """Return the body with this many rows, which are its own rows, repeated."""
    found = body[at] if at else body
    sized = [found[nth % len(found)] for nth in range(rows)]
    return {**body, at: sized} if at else sized


def _with_new_texts(body: Any, mark: str) -> Any:
    if isinstance(body, dict):
        return {name: _with_new_texts(value, mark) for name, value in body.items()}
    if isinstance(body, list):
        return [_with_new_texts(entry, f"{mark}{nth} ") for nth, entry in enumerate(body)]
    if isinstance(body, str) and len(body) >= _WORDS_MIN and " " in body:
        return mark + body
    return body


def _reading(platform: Platform, endpoint: Endpoint, rows: int) -> Callable[[bytes], bytes]:
    """Return a function that does a node's work for a body, from the received body to the encoded response."""
    values: Mapping[str, Value] = {**example_values(endpoint), "limit": rows}
    path = f"/v1/{platform.slug}/{endpoint.resource}"

    def read(raw: bytes) -> bytes:
        steps = endpoint.read(Args(values))
        call = next(steps)
        assert isinstance(call, Call), "a list of one call"
        answer = read_answer(HttpAnswer(200, {}, raw), "api", 0.0, accepts=call.accepts, judge=platform.judge)
        try:
            more = steps.send(answer)
            assert isinstance(more, Call), "a list of one call"
            assert more.optional, "a second call may fail"
            steps.send(Missing("not asked", "api"))
        except StopIteration as done:
            shaped = shape(endpoint.archetype, done.value, lambda _state: "cur_")
            return envelope.fragment(platform.slug, path, shaped.data, shaped.pagination)
        raise AssertionError("a third call")

    return read


def _best_us(works: Sequence[tuple[Callable[[bytes], bytes], Sequence[bytes]]], rounds: int) -> list[float]:
    """Return microseconds per call of each work, the best of several rounds over its bodies.

    The works alternate, so that a slow minute of the machine affects all of them.
    """
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for nth, (work, bodies) in enumerate(works):
            started = time.process_time_ns()
            for body in bodies:
                work(body)
            best[nth] = min(best[nth], (time.process_time_ns() - started) / len(bodies) / 1_000)
    return best


def main() -> None:
    """Print one line per list."""
    print(f"{'microseconds per row':24}{'texts known':>12}{'texts new':>12}{'plain stack':>12}")
    for id_ in LISTS:
        cost = measure_rows(id_)
        print(f"{id_:24}{cost.known_us:12.1f}{cost.new_us:12.1f}{cost.plain_us:12.1f}", flush=True)


if __name__ == "__main__":
    main()
