"""Return a read that makes two concurrent calls, one of which fails."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterator

import pytest
import trio

from limits.errors import LimitError
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import ScriptedExchange, http_answer, source_over
from upstreams.fetching.aside import LONG_BYTES
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import plan
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules
from upstreams.model.archetypes import DOSSIER
from upstreams.model.endpoint import Endpoint, Fallback, Platform, Read
from upstreams.model.errors import UnexpectedBody, UpstreamError
from upstreams.model.params import Args
from upstreams.model.steps import Call, Steps
from upstreams.transport.threads import run_in_thread


class Value:
    """Stands for the value that was read from a body."""


Made = list["weakref.ref[Value]"]


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """Turn garbage collection off, as in a node, which runs a full collection only every few hours."""
    was_on = gc.isenabled()
    gc.disable()
    yield
    if was_on:
        gc.enable()


def failing(made: Made) -> Callable[[], object]:
    """Create a value, and then fail."""

    def work() -> object:
        value = Value()
        made.append(weakref.ref(value))
        raise UnexpectedBody("expected a list")

    return work


async def test_result_of_work_is_returned() -> None:
    assert await run_in_thread(lambda: 7, trio.CapacityLimiter(1)) == 7


async def test_failure_in_a_thread_leaves_no_reference_cycle() -> None:
    made: Made = []
    with pytest.raises(UnexpectedBody):
        await run_in_thread(failing(made), trio.CapacityLimiter(1))
    assert [one() for one in made] == [None]


def alone(made: Made) -> Read:
    """Return a read that makes one call and then fails."""

    def read(_args: Args) -> Steps:
        yield Call("/x")
        failing(made)()
        raise AssertionError

    return read


def together(made: Made) -> Read:
    """Return a read that makes two concurrent calls, one of which fails."""

    def read(_args: Args) -> Steps:
        value = Value()
        made.append(weakref.ref(value))
        yield (Call("/x"), Call("/fails"))
        raise AssertionError

    return read


@pytest.mark.parametrize("length", [2, LONG_BYTES + 1])
@pytest.mark.parametrize("of", [alone, together])
@pytest.mark.parametrize("fallbacks", [0, 1])
async def test_failed_read_leaves_no_reference_cycle(of: Callable[[Made], Read], fallbacks: int, length: int) -> None:
    made: Made = []
    body = http_answer(b"x" * 5 if of is together else b'["%b"]' % (b"x" * (length - 4)))
    source = source_over(ScriptedExchange(script=lambda _call: body), rules=Rules(retries=0))
    below = (Fallback(source="main", read=of(made)),) * fallbacks
    endpoint = Endpoint(resource="x", summary="An x.", archetype=DOSSIER, read=of(made), fallbacks=below)
    platform = Platform(
        slug="odd",
        title="Odd",
        sources={"main": "https://api.test/v1"},
        endpoints=(endpoint,),
        **FIELDS,
    )
    site = Site(platform, {"main": source}, credentials={}, user_agent="sluice/1")
    try:
        await fetch(plan(site, endpoint, Args({})), math.inf)
    except (UpstreamError, LimitError):
        pass
    else:
        raise AssertionError("the read should have failed")
    assert made
    assert [one() for one in made] == [None] * len(made)
