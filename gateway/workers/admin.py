"""The admin address of a supervisor: one answer for all workers."""

from __future__ import annotations

import re
from typing import Any

import orjson
import trio
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gateway.admin import read_body, refused
from gateway.operations import OperationRefused
from gateway.server.asgi import HTTPScope, Receive, Scope, Send
from gateway.workers.asking import Answer, Question, WorkerSilent, WorkerUnreached, ask
from gateway.workers.metrics import merge, own_metrics
from gateway.workers.slots import Slot, Slots

READY_WITHIN_S = 3.0
METRICS_WITHIN_S = 5.0
OPERATION_WITHIN_S = 25.0
_TEXT = b"text/plain; charset=utf-8"
_OF_EVERY_WORKER = frozenset({"reload", "platform.isolate", "platform.reset"})
"""Operations on what each process has for itself; all others are on what they share, and one does it for all."""
_NAME = re.compile(r"[a-z_.]+")


class SupervisorAdmin:
    """ASGI app of the admin address when several workers serve; tokens and arguments are theirs to check."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection scope."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        answer = await self._answer(scope, receive)
        headers = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(answer.body))]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    async def _answer(self, scope: HTTPScope, receive: Receive) -> Answer:
        path = scope["path"]
        if path.startswith("/admin/"):
            return await self._operation(scope, receive)
        if scope["method"] not in ("GET", "HEAD"):
            return Answer(405, _TEXT, b"use GET\n")
        if path == "/healthz":
            return Answer(200, _TEXT, b"ok\n")
        if path == "/readyz":
            return await self._readiness()
        if path == "/metrics":
            return Answer(200, CONTENT_TYPE_LATEST.encode(), await self._metrics())
        return Answer(404, _TEXT, b"here are /healthz, /readyz, /metrics and POST /admin/{operation}\n")

    async def _readiness(self) -> Answer:
        """Ready when every worker is; else a line for each that is not."""
        if self._slots.stopping.is_set():
            return Answer(503, _TEXT, b"draining\n")
        answers = await self._ask_ready(Question("GET", "/readyz"), within_s=READY_WITHIN_S)
        reasons = [
            f"worker {slot.number}: {reason}\n"
            for slot in self._slots.slots
            if (reason := _unready(slot, answers.get(slot.number)))
        ]
        return Answer(503, _TEXT, "".join(reasons).encode()) if reasons else Answer(200, _TEXT, b"ready\n")

    async def _metrics(self) -> bytes:
        answers = await self._ask_ready(Question("GET", "/metrics"), within_s=METRICS_WITHIN_S)
        texts = {
            number: answer.body.decode()
            for number, answer in sorted(answers.items())
            if answer is not None and answer.status == 200
        }
        return (merge(texts) + own_metrics(self._slots.slots, texts)).encode()

    async def _operation(self, scope: HTTPScope, receive: Receive) -> Answer:
        name = scope["path"].removeprefix("/admin/")
        if not _NAME.fullmatch(name):
            return _refusal(400, f"there is no operation {name}")
        try:
            body = await read_body(receive)
        except OperationRefused as exc:
            return _refusal(400, str(exc))
        authorization = dict(scope["headers"]).get(b"authorization", b"")
        question = Question(scope["method"], scope["path"], authorization, body)
        if name not in _OF_EVERY_WORKER:
            return await self._ask_one(question)
        answers = await self._ask_ready(question, within_s=OPERATION_WITHIN_S)
        merged = _merged(answers)
        if name == "reload" and merged.status == 200:
            self._slots.reload(done=answers)
        return merged

    async def _ask_one(self, question: Question) -> Answer:
        """Ask the first worker that can be reached; one that was reached and is silent may have done it."""
        for slot in self._slots.ready():
            try:
                with trio.fail_after(OPERATION_WITHIN_S):
                    return await ask(slot.admin_url, question)
            except WorkerUnreached:
                continue
            except (WorkerSilent, trio.TooSlowError):
                return _silent(slot.number)
        return _refusal(503, "no worker is ready")

    async def _ask_ready(self, question: Question, *, within_s: float) -> dict[int, Answer | None]:
        """What every ready worker answers, by its number; None of one that does not."""
        answers: dict[int, Answer | None] = {}

        async def ask_it(slot: Slot) -> None:
            answers[slot.number] = None
            try:
                with trio.move_on_after(within_s):
                    answers[slot.number] = await ask(slot.admin_url, question)
            except (WorkerUnreached, WorkerSilent):
                pass

        async with trio.open_nursery() as nursery:
            for slot in self._slots.ready():
                nursery.start_soon(ask_it, slot)
        return answers


def _unready(slot: Slot, answer: Answer | None) -> str:
    """Why a worker is not ready; empty when it is."""
    if answer is None:
        return "does not answer" if slot.admin_url else slot.state
    return "" if answer.status == 200 else answer.body.decode().strip()


def _merged(answers: dict[int, Answer | None]) -> Answer:
    """What all workers said to one question: a refusal when there is one, else all that their lists name."""
    if not answers:
        return _refusal(503, "no worker is ready")
    for number, answer in sorted(answers.items()):
        if answer is None:
            return _silent(number)
        if answer.status != 200:
            return answer
    results: list[dict[str, Any]] = [orjson.loads(answer.body) for answer in answers.values() if answer is not None]
    together = {
        name: sorted({entry for result in results for entry in result[name]}) if isinstance(value, list) else value
        for name, value in results[0].items()
    }
    return Answer(200, b"application/json", orjson.dumps(together))


def _silent(number: int) -> Answer:
    return _refusal(503, f"worker {number} does not answer; look before you do it again")


def _refusal(status: int, text: str) -> Answer:
    return Answer(*refused(status, text))
