"""Worker tasks that run in the calling process, so that tests need no worker processes."""

from __future__ import annotations

from importlib import import_module

import msgspec
import trio

from upstreams.model.steps import Answer, Task


class TasksHere:
    """Implements `upstreams.workers.pool.ProcessPool`; input and output are encoded as for a worker process."""

    def __init__(self) -> None:
        self.ran = 0

    async def run(self, task: Task, deadline_at: float, *, source: str, account_id: str) -> Answer:
        await trio.lowlevel.checkpoint()
        assert account_id
        assert deadline_at > trio.current_time()
        module, _, name = task.function.partition(":")
        args = msgspec.msgpack.decode(msgspec.msgpack.encode(task.args))
        self.ran += 1
        result = getattr(import_module(module), name)(*args)
        return Answer(200, {}, msgspec.msgpack.decode(msgspec.msgpack.encode(result)), source)
