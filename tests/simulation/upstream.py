"""The upstreams of the simulated world. They answer, or misbehave according to their weather."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import orjson
import trio

from tests.simulation.breaker_model import Admitted, BreakerModel, Result
from tests.simulation.requests import CURRENT, Sent
from tests.simulation.spells import Weather
from tests.simulation.trace import Trace
from upstreams.fetching.source import Source
from upstreams.transport.http import HttpAnswer, HttpCall

ONE_FLIGHT = "identical calls at the same time are made once"
OBEYED = "a source that asks for patience is left alone"
THROTTLED_S = 30.0
"""The pause if the upstream requests none (spec 7.2)."""
KINDS = {
    "broken": (4.0, 15.0),
    "slow": (2.0, 15.0),
    "throttling": (2.0, 8.0),
    "hanging": (2.0, 10.0),
    "odd": (2.0, 15.0),
}
"""The periods between good ones: their weights and mean lengths."""
MIXES = {
    "good": {"quick": 30, "late": 6, "gone": 3, "error": 1},
    "broken": {"error": 6, "refused": 2, "lost": 2, "quick": 1},
    "slow": {"late": 5, "later": 2, "hang": 1},
    "throttling": {"wait": 3, "wait a while": 3, "busy": 1, "quick": 2},
    "hanging": {"hang": 4, "quick": 1},
    "odd": {"truncated": 2, "wrong": 2, "null": 2, "empty": 1, "gone": 2, "quick": 3, "markup": 1},
}


class _Said(NamedTuple):
    """An answer or an error, the delay before it, and what it means for the source."""

    after_s: float
    what: HttpAnswer | Exception
    result: Result
    told: int | None = None
    """The number in a useful body."""


@dataclass
class _Failed:
    """The latest failed attempt of a task. It counts as a failure unless the request is retried."""

    model: BreakerModel
    call: Admitted
    result: Result
    is_retried: bool = False


_FAILED: ContextVar[_Failed | None] = ContextVar("failed", default=None)
FAIR_S = 5.0
"""A shorter call does not count for or against its source."""


class Upstream:
    """All sources as one `Exchange`. `models` has the expected circuit of each source."""

    def __init__(self, weathers: dict[str, Weather], rng: Random, trace: Trace) -> None:
        self._weathers = weathers
        self._rng = rng
        self._trace = trace
        self._flying: set[tuple[str, str, bool]] = set()
        self.told_at: list[float] = []
        """When each numbered body arrived, by its number."""
        self.models: dict[str, BreakerModel] = {}
        self._held_until: dict[str, float] = {}

    def meet(self, models: dict[str, BreakerModel]) -> None:
        """Prepare for a new node, which has none of the answers that the previous node received."""
        self.models = models
        self._held_until = dict.fromkeys(models, 0.0)
        self._flying = set()

    def watch(self, source: Source) -> None:
        """Count a failed request in the model once the source has decided not to retry it."""
        pause_s_of = source._pause_s

        def pause_s(*args: object, **options: object) -> float | None:
            found, failed = pause_s_of(*args, **options), _FAILED.get()  # type: ignore[arg-type] - as they came
            if failed is not None and not failed.call.is_probe:
                failed.is_retried = found is not None
                failed.model.end(failed.call, "nothing" if failed.is_retried else failed.result, trio.current_time())
                if not failed.is_retried:
                    _FAILED.set(None)
            return found

        source._pause_s = pause_s  # type: ignore[method-assign] - of this one

    async def exchange(self, call: HttpCall, deadline_at: float) -> HttpAnswer:
        """Handle one request."""
        sent, flying = CURRENT.get(), self._flying
        flight = (sent.path + sent.query, call.target, sent.is_fresh)
        if sent.claim is not None:
            return await self._exchange(call, deadline_at, sent)
        self._trace.hold(flight not in flying, ONE_FLIGHT, f"{sent.name} is not the first to ask for {flight}")
        flying.add(flight)
        try:
            return await self._exchange(call, deadline_at, sent)
        finally:
            flying.discard(flight)

    async def _exchange(self, call: HttpCall, deadline_at: float, sent: Sent) -> HttpAnswer:
        name = call.origin.host.partition(".")[0]
        model = self.models[name]
        held_until, said = self._held_until, self._say(name, call)
        too_early_s = held_until[name] - trio.current_time()
        self._trace.hold(too_early_s < 1e-6, OBEYED, f"{name} was called {too_early_s} s too early by {sent.name}")
        assert sent.holder is not None
        began_at = trio.current_time()
        admitted = model.begin(began_at, sent.holder.account)
        result: Result = "nothing"
        self._trace.note(f"{sent.name} asks {name}{call.target}")
        try:
            with trio.move_on_at(deadline_at) as in_time:
                await trio.sleep(said.after_s)
            if in_time.cancelled_caught:
                result = "failure" if deadline_at - began_at >= FAIR_S else "nothing"
                raise httpx.ReadTimeout("the response did not arrive in time")
            result = said.result
            if isinstance(said.what, Exception):
                raise said.what
            if said.told is not None:
                sent.answers += 1
                self.told_at[said.told] = trio.current_time()
            if said.what.status == 429 or "retry-after" in said.what.headers:
                wait_s = float(said.what.headers.get("retry-after", THROTTLED_S))
                held_until[name] = max(held_until[name], trio.current_time() + wait_s)
            return said.what
        finally:
            self._trace.note(f"{sent.name} has asked {name}: {_shown(said)}, a {result}")
            failed = in_time.cancelled_caught or result in ("failure", "no connection")
            self._end(model, admitted, result, failed=failed)

    @staticmethod
    def _end(model: BreakerModel, call: Admitted, result: Result, *, failed: bool) -> None:
        """Count the result of an attempt. A failure counts only when it is certain that the request is not retried."""
        earlier = _FAILED.get()
        _FAILED.set(None)
        if earlier is not None and earlier.is_retried and failed and result == "nothing":
            result = earlier.result
        if failed and not call.is_probe:
            _FAILED.set(_Failed(model, call, result))
        else:
            model.end(call, result, trio.current_time())

    def _say(self, name: str, call: HttpCall) -> _Said:
        mix = MIXES[self._weathers[name].at(trio.current_time())]
        return _WAYS[self._rng.choices(list(mix), list(mix.values()))[0]](self, call)

    def _good(self, call: HttpCall, after_s: float) -> _Said:
        self.told_at.append(0.0)
        parts = urlsplit(call.target)
        if parts.path == "/things":
            query = parse_qs(parts.query)
            first, count = int(query["p"][0]) * 100, int(query["n"][0])
            body: object = {"items": [self._thing(str(first + place)) for place in range(count)]}
        else:
            body = self._thing(parts.path.rpartition("/")[2])
        return _Said(
            after_s,
            HttpAnswer(200, {"content-type": "application/json"}, orjson.dumps(body)),
            "success",
            told=len(self.told_at) - 1,
        )

    def _thing(self, id_: str) -> dict[str, str]:
        return {"id": id_, "text": f"told {len(self.told_at) - 1}"}

    def _quick(self, call: HttpCall) -> _Said:
        return self._good(call, self._rng.uniform(0.01, 0.3))

    def _late(self, call: HttpCall) -> _Said:
        return self._good(call, self._rng.uniform(0.5, 4.0))

    def _later(self, call: HttpCall) -> _Said:
        return self._good(call, self._rng.uniform(4.0, 9.0))

    def _hang(self, call: HttpCall) -> _Said:
        return self._good(call, 1e6)


def _status(
    status: int, body: bytes = b"{}", *, result: Result = "failure", retry_after: str = ""
) -> Callable[[Upstream, HttpCall], _Said]:
    headers = {"content-type": "application/json"} | ({"retry-after": retry_after} if retry_after else {})

    def say(upstream: Upstream, _call: HttpCall) -> _Said:
        return _Said(upstream._rng.uniform(0.01, 1.0), HttpAnswer(status, headers, body), result)

    return say


def _error(
    make: Callable[[], Exception], longest_s: float, result: Result = "failure"
) -> Callable[[Upstream, HttpCall], _Said]:
    def say(upstream: Upstream, _call: HttpCall) -> _Said:
        return _Said(upstream._rng.uniform(0.0, longest_s), make(), result)

    return say


_WAYS: dict[str, Callable[[Upstream, HttpCall], _Said]] = {
    "quick": Upstream._quick,
    "late": Upstream._late,
    "later": Upstream._later,
    "hang": Upstream._hang,
    "error": _status(500),
    "busy": _status(503, retry_after="3", result="nothing"),
    "wait": _status(429, result="nothing"),
    "wait a while": _status(429, retry_after="4", result="nothing"),
    "gone": _status(404, result="success"),
    "null": _status(200, b"null", result="success"),
    "empty": _status(200, b"", result="success"),
    "wrong": _status(200, b'{"unheard": "of"}', result="success"),
    "truncated": _status(200, b'{"id": "1", "te', result="failure"),
    "markup": _status(200, b"<html>sorry</html>", result="failure"),
    "refused": _error(lambda: httpx.ConnectError("refused"), 0.1, "no connection"),
    "lost": _error(lambda: httpx.ReadError("lost"), 2.0),
}


def _shown(said: _Said) -> str:
    return type(said.what).__name__ if isinstance(said.what, Exception) else str(said.what.status)
