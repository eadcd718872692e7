"""A node that receives a good upstream answer first. It is then called again while the upstream sends odd answers.

All tests of a module share one node, which runs in its own thread. The stand-ins are its upstream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import orjson
import trio

from tests.fakes.calling import Answered
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.fakes.patient_clock import PatientClock
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.platforms.bench import PATIENCE_S, unhurried
from tests.platforms.each import few_rows
from tests.platforms.odd import Path as Place
from tests.platforms.odd import numbers_in
from tests.platforms.promised import check_data
from tests.platforms.test_recordings import COST, NO_LIMITS
from tests.spec.rows import CREDENTIALS, ENVIRON
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.platforms import load_platforms

Record = dict[str, Any]
T = TypeVar("T")
SIGNING_S = 10.0
SUMS = frozenset(("shares", "downloads", "posts_count", "rank", "change", "max"))
OUR_OWN = frozenset(("computed", "legs", "velocity"))


@dataclass
class Question:
    """A request that succeeds, and the upstream's answer to each call that it makes, by `host/path?query`.

    Calls that sign in are not included, because a request makes them only if there is no session.
    """

    endpoint: Endpoint
    target: str
    told: dict[str, ScriptedAnswer] = field(default_factory=dict)
    data: Record = field(default_factory=dict)

    @cached_property
    def computed(self) -> frozenset[str]:
        """The names of fields with numbers that no answer of the upstream contains.

        They are computed, for example from milliseconds or from a text.
        """
        known = numbers_in([orjson.loads(one.body) for one in self.told.values() if is_json(one)])
        return frozenset(str(path[-1]) for path, value in counts_in(self.data) if value not in known)

    @property
    def odd_ones(self) -> list[str]:
        """Return the upstream calls whose answers may be changed."""
        return sorted(asked for asked, told in self.told.items() if told.status == 200)


def question_of(platform: Platform, endpoint: Endpoint) -> Question:
    """Return the example request of an endpoint."""
    return Question(endpoint, f"/v1/{platform.slug}/{endpoint.resource}?{urlencode(few_rows(endpoint))}")


@dataclass(slots=True)
class OddBench:
    """A node with every platform, the requests that succeed on it, and the credits that they cost.

    `signing` contains the `host/path` of each call that signs in to a platform.
    """

    node: OpenNode
    token: trio.lowlevel.TrioToken
    signing: frozenset[str] = frozenset()
    credits_used: int = 0
    _learnt: dict[str, Question] = field(default_factory=dict)

    def run(self, work: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an asynchronous function in the node's thread."""
        return trio.from_thread.run(work, *args, trio_token=self.token)

    def question(self, platform: Platform, endpoint: Endpoint) -> Question:
        """Return the endpoint's request. It is recorded once, while the upstream answers normally."""
        found = question_of(platform, endpoint)
        if found.target not in self._learnt:
            self._learnt[found.target] = self.run(self._learn, found)
        return self._learnt[found.target]

    async def ask(self, question: Question) -> Answered:
        """Return the node's answer to a request, which must arrive within 10 seconds."""
        with trio.fail_after(10):
            answer = await self.node.get(question.target)
        self.credits_used += answer.json["credits_used"]
        return answer

    async def _learn(self, question: Question) -> Question:
        upstream = self.node.upstream
        upstream.always(None)
        upstream.sandbox_answers.clear()
        answer = await self.ask(question)
        assert answer.status == 200, (question.target, answer.json)
        check_envelope(question, answer)
        question.told = {asked: told for asked, told in upstream.sandbox_answers.items() if not self.signs_in(asked)}
        question.data = answer.json["data"]
        return question

    async def learn_signing(self) -> None:
        """Sign in to each platform that needs it."""
        upstream = self.node.upstream
        for site in self.node.node.catalog.sites.values():
            for source in site.sources:
                if site.platform.sign_in_of(source) is not None:
                    await site._sessions_of(source).signed_in(trio.current_time() + SIGNING_S)
        self.signing = frozenset(asked.partition("?")[0] for asked in upstream.sandbox_answers)

    def signs_in(self, asked: str) -> bool:
        """Return whether a call signs in to a platform."""
        return asked.partition("?")[0] in self.signing

    async def ask_with(self, question: Question, odd: str, told: ScriptedAnswer) -> Answered:
        """Return the node's answer to a question, for whose call `odd` the upstream sends `told`.

        The question's other calls are answered as usual, and so are calls that renew a session, which the upstream may
        have refused. Calls that it did not make before return 404.
        """

        def script(asked: str) -> ScriptedAnswer | None:
            if asked == odd:
                return told
            return None if asked in question.told or self.signs_in(asked) else ScriptedAnswer(404)

        self.node.upstream.script = script
        return await self.ask(question)

    async def assert_sound(self) -> None:
        """Check that failed requests were refunded. The credits spent must be those that the answers report."""
        assert self.node.log_events("request_failed") == []
        await self.node.assert_sound()
        assert await self.node.money() == (CREDITS - self.credits_used, 0)


@contextmanager
def running_bench(folder: Path) -> Iterator[OddBench]:
    """Run a node in a thread. Verify its ledger when the block ends."""
    with ThreadPoolExecutor(1) as threads:
        opened: Future[OddBench] = Future()
        stop = trio.Event()
        running = threads.submit(trio.run, _serve, folder, opened, stop, clock=PatientClock())
        running.add_done_callback(lambda done: opened.done() or opened.set_exception(done.exception()))
        bench = opened.result()
        try:
            yield bench
        finally:
            trio.from_thread.run_sync(stop.set, trio_token=bench.token)
            running.result()


async def _serve(folder: Path, opened: Future[OddBench], stop: trio.Event) -> None:
    upstreams = {"defaults": {"retries": 0}, **{k: v for k, v in CREDENTIALS.items() if k != "web"}}
    platforms = tuple(map(unhurried, load_platforms()))
    async with open_test_node(
        folder, environ=ENVIRON, only=platforms, patience_s=PATIENCE_S, upstreams=upstreams, **NO_LIMITS
    ) as node:
        bench = OddBench(node, trio.lowlevel.current_trio_token())
        await bench.learn_signing()
        opened.set_result(bench)
        await stop.wait()
        await bench.assert_sound()


def counts_in(data: Any, here: Place = ()) -> Iterator[tuple[Place, int]]:
    """Yield the path and value of each number in an answer, except sums and numbers that the gateway computes."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, value in inner:
        if type(value) is int and name not in SUMS:
            yield (*here, name), value
        elif name not in OUR_OWN:
            yield from counts_in(value, (*here, name))


def is_json(told: ScriptedAnswer) -> bool:
    return told.headers.get("content-type", "").startswith("application/json")


def check_envelope(question: Question, answer: Answered) -> None:
    """Check that the answer is a valid success, a valid "not found" or a valid failure."""
    body = answer.json
    assert body["request_id"] == answer.headers["x-request-id"]
    if answer.status != 200:
        assert (answer.status, answer.code) in {(404, "RESOURCE_NOT_FOUND"), (502, "UPSTREAM_ERROR")}, body
        assert body["credits_used"] == 0
        return
    endpoint = question.endpoint
    assert body["success"] is True
    assert body["cached"] is False
    pages_or_legs = endpoint.collect is not None or "legs" in body["data"]  # price by page or by leg
    found = body["data"].get("items", body["data"].get(endpoint.archetype.key))
    is_empty = not found if endpoint.archetype.many else endpoint.archetype.found_nothing(found)
    assert pages_or_legs or body["credits_used"] == (0 if is_empty else COST[endpoint.tier])
    check_data(endpoint.archetype, body["data"])
    if endpoint.archetype.many:
        page = body["pagination"]
        assert page["page_size"] == len(body["data"]["items"])
        assert page["has_more"] is (page["next_cursor"] is not None)
    else:
        key = endpoint.archetype.key
        assert not key or key == "article" or body["data"][key].get("id", "") is not None
