"""Runs an operation in the process that has the store: the running node, through its admin address, or this process.

The node must first prove that it belongs to this store (`gateway.admin.proof`). Any other listener gets no request.
Each change has an id and is applied only once per id, so it can be sent again if its response is lost.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import orjson
import trio

from gateway.admin.client import (
    AdminAnswer,
    AdminQuestion,
    AdminSilent,
    AdminSlow,
    AdminUnproved,
    AdminUnreached,
    ask_proved,
    ask_watched,
)
from gateway.cli.run import Refusal, read_config, read_secrets, run
from gateway.config import Config
from gateway.config.secrets import Secrets
from gateway.node.listeners import in_url
from storage.errors import CommitUnknown, StorageError, StoreInUse
from storage.opening import is_shared, read_owner_note

_TRIES_S = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0, 2.0, 2.0)
"""Pauses between attempts while another process owns the store but has no admin address that responds."""
_REPEATS_S = (0.5, 2.0)
"""Pauses before resending an operation that may have been applied."""
_ANSWER_S = 30.0
_CONNECT_S = 2.0
_PAGE = 1_000

DoHere = Callable[[Config, Secrets, str, Mapping[str, Any]], Awaitable[Any]]
"""Runs an operation in this process, which either owns the store or joins a shared store as a node does."""


class _NotSent(Refusal):
    """The operation was not started. A retry may succeed."""


class _Unsettled(Exception):
    """The operation was started, but its outcome is unknown. The message gives the reason."""


def operate(config_path: str | None, operation: str, /, *, do_here: DoHere | None = None, **arguments: Any) -> Any:
    """Run one operation: in the node that owns the store or, if none runs, in this process with `do_here`.

    The operation must be safe to repeat.

    Raises:
        Refusal: the operation failed.
    """
    sender = _sender(config_path, do_here)
    return _repeat(sender, operation, arguments, hint="; it is safe to repeat")


def operate_watched(
    config_path: str | None, operation: str, progress: str, say_rows: Callable[[int], None], /, **arguments: Any
) -> Any:
    """Like `operate`, but wait as long as the operation makes progress.

    The operation `progress` reports the number of rows so far, which is passed to `say_rows`.

    Raises:
        Refusal: the operation failed, or makes no progress.
    """
    proof = {"proof": f"proof_{secrets.token_hex(16)}"}
    sender = replace(_sender(config_path), watch=_Watch(progress, proof, say_rows))
    return _repeat(sender, operation, {**arguments, **proof}, hint="; it is safe to repeat")


def change(config_path: str | None, operation: str, operation_id: str | None, /, **arguments: Any) -> Any:
    """Apply one change, once per operation id.

    Without an id, a new one is generated.

    Raises:
        Refusal: the change failed, or may have been applied. In the second case, the message says how to repeat it
            safely.
    """
    chosen = operation_id or f"op_{secrets.token_hex(16)}"
    hint = f"; it may have been applied; repeat it with --operation-id {chosen} to apply it once"
    return _repeat(_sender(config_path), operation, {**arguments, "operation_id": chosen}, hint=hint)


def operate_on_node(config_path: str | None, operation: str, /, **arguments: Any) -> Any:
    """Run an operation that needs a running node and is safe to repeat.

    Raises:
        Refusal: no node is running, or it rejects the operation.
    """
    return operate(config_path, operation, do_here=_refuse_here, **arguments)


def pages(config_path: str | None, operation: str, /, **arguments: Any) -> Iterator[list[dict[str, Any]]]:
    """Yield all entries of a list, page by page.

    Raises:
        Refusal: the list cannot be read.
    """
    after = None
    while True:
        page = operate(config_path, operation, after=after, limit=_PAGE, **arguments)
        yield page
        if len(page) < _PAGE:
            return
        after = page[-1]["id"]


def _repeat(sender: _Sender, operation: str, arguments: Mapping[str, Any], *, hint: str) -> Any:
    """Resend an operation until its outcome is known. If the outcome stays unknown, the error ends with `hint`."""
    sent = {key: value for key, value in arguments.items() if value is not None}
    why: Exception | None = None
    for pause_s in (*_REPEATS_S, None):
        try:
            return sender.send(operation, sent)
        except _Unsettled as exc:
            why = exc
        except _NotSent as exc:
            if why is None:  # Neither this attempt nor an earlier one was started.
                raise
            why = exc
        if pause_s is not None:
            time.sleep(pause_s)
    raise Refusal(f"{why}{hint}") from why


@dataclass(frozen=True, slots=True)
class _Watch:
    """The operation that reports progress, its arguments, and the callback that receives the progress."""

    operation: str
    arguments: Mapping[str, Any]
    say_rows: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class _Sender:
    """Runs operations for one config."""

    config: Config
    secrets: Secrets
    do_here: DoHere
    watch: _Watch | None = None
    """Without a watch, the response must arrive within a fixed time."""

    def send(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Run an operation once. Wait if another process owns the store and cannot be reached.

        Raises:
            Refusal, _NotSent, _Unsettled: the operation failed, was not started, or may have been applied.
        """
        question = AdminQuestion("POST", f"/admin/{operation}", _encoded(arguments))
        for pause_s in (*_TRIES_S, None):
            try:
                if admin_url := _node_of(self.config):
                    return _result(run(partial(_ask_node, admin_url, self.secrets.admin_token, question, self.watch)))
                return run(partial(self.do_here, self.config, self.secrets, operation, arguments))
            except AdminUnreached as exc:
                if pause_s is None:
                    raise _NotSent(f"the running node does not respond at {admin_url}: {exc}") from exc
            except Refusal as exc:
                if isinstance(exc.__cause__, CommitUnknown):
                    raise _Unsettled(str(exc)) from exc
                if not isinstance(exc.__cause__, StorageError):
                    raise
                if not isinstance(exc.__cause__, StoreInUse) or pause_s is None:
                    raise _NotSent(*exc.lines) from exc
            time.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")


def _sender(config_path: str | None, do_here: DoHere | None = None) -> _Sender:
    config = read_config(config_path)
    return _Sender(config, read_secrets(config), do_here or _do_here)


def _node_of(config: Config) -> str | None:
    """Return the admin URL of the node that owns the store; empty if not published yet; None if no node runs.

    No process owns a shared database. For such a database, the result is the admin address in the config, if a node on
    this machine accepts connections there.
    """
    if not is_shared(config.store.url):
        note = read_owner_note(config.store.url)
        return None if note is None else note.get("admin_url", "")
    host, port = config.admin.host, config.admin.port
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except OSError:
        return None
    return f"http://{in_url(host)}:{port}"


async def _do_here(config: Config, secrets: Secrets, name: str, arguments: Mapping[str, Any]) -> Any:
    from gateway.admin.operations import OperationRefused
    from gateway.config.ids import id_maker
    from gateway.node.state import open_gate, open_state
    from gateway.node.stores import open_stores
    from storage.supervision import unsupervised

    make_id = id_maker(time.time, Random())
    async with (
        open_state(config.state.url, keep=unsupervised) as state,
        open_gate(state, config.limits, keep=unsupervised) as gate,
        open_stores(config, secrets, now=time.time, make_id=make_id, shared=None if state is None else gate) as stores,
    ):
        try:
            return await stores.operations.run(name, arguments)
        except OperationRefused as exc:
            raise Refusal(str(exc)) from exc


async def _refuse_here(_config: Config, _secrets: Secrets, _name: str, _arguments: Mapping[str, Any]) -> Any:
    await trio.lowlevel.checkpoint()
    raise Refusal("no node is running on this store")


def _encoded(arguments: Mapping[str, Any]) -> bytes:
    """Encode the arguments for a node. Arguments that cannot be encoded are rejected even without a node."""
    try:
        return orjson.dumps(arguments)
    except orjson.JSONEncodeError as exc:
        raise Refusal(f"invalid argument: {exc}", exit_code=2) from exc


async def _ask_node(admin_url: str, token: str, question: AdminQuestion, watch: _Watch | None) -> AdminAnswer:
    ask = partial(ask_proved, admin_url, token)
    try:
        if watch is None:
            with trio.fail_after(_ANSWER_S):
                return await ask(question)
        progress = AdminQuestion("POST", f"/admin/{watch.operation}", _encoded(watch.arguments))
        return await ask_watched(ask, question, progress, say_rows=watch.say_rows, patience_s=_ANSWER_S)
    except AdminSlow as exc:
        raise _NotSent(f"the running node does not respond at {admin_url}: {exc}") from exc
    except AdminUnproved as exc:
        place = admin_url.removeprefix("http://")
        raise _NotSent(f"the listener on {place} is not this node: {exc}; nothing was sent to it") from exc
    except AdminSilent as exc:
        raise _Unsettled(f"the running node does not respond at {admin_url}: {exc}") from exc
    except trio.TooSlowError as exc:
        raise _Unsettled(f"the running node did not respond at {admin_url} within {_ANSWER_S:g} s") from exc


def _result(answer: AdminAnswer) -> Any:
    """Return the result of an operation from a node's response.

    Raises:
        Refusal, _Unsettled: the node rejected the operation, or it may have been applied.
    """
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError as exc:
        raise _Unsettled("the running node's response is not valid JSON") from exc
    if answer.status == 200:
        return found
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(error, str):
        raise _Unsettled(f"the running node failed with status {answer.status}")
    if found.get("may_have_happened"):
        raise _Unsettled(error)
    raise Refusal(error)
