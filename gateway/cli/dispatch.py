"""Doing an operation where the store is: in the running node, through its admin address, or on the store itself.

The node has to prove first that it is this store's (`gateway.admin.proof`); what else listens there is told nothing.
A change has an id, under which it is done once: when its answer is lost, it is sent again.
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
"""Pauses while another process holds the store and has not said its admin address yet, or answers there no more."""
_REPEATS_S = (0.5, 2.0)
"""Pauses before what may have happened is sent again."""
_ANSWER_S = 30.0
_CONNECT_S = 2.0
_PAGE = 1_000

DoHere = Callable[[Config, Secrets, str, Mapping[str, Any]], Awaitable[Any]]
"""Does an operation in this process, which has the store to itself or is one of its nodes."""


class _NotSent(Refusal):
    """This time nothing was done, and another time it may be."""


class _Unsettled(Exception):
    """It was begun, and whether it happened is not known; the text says why."""


def operate(config_path: str | None, operation: str, /, *, do_here: DoHere | None = None, **arguments: Any) -> Any:
    """Do one operation: in the node that has the store, or here while none has, by `do_here`.

    It must be one that is harmless to repeat.

    Raises:
        Refusal: it cannot be done.
    """
    sender = _sender(config_path, do_here)
    return _repeat(sender, operation, arguments, hint="; it is harmless to repeat")


def operate_watched(
    config_path: str | None, operation: str, progress: str, say_rows: Callable[[int], None], /, **arguments: Any
) -> Any:
    """As `operate`, for as long as it goes on: the operation `progress` tells of that, and `say_rows` is told.

    Raises:
        Refusal: it cannot be done, or does not go on.
    """
    proof = {"proof": f"proof_{secrets.token_hex(16)}"}
    sender = replace(_sender(config_path), watch=_Watch(progress, proof, say_rows))
    return _repeat(sender, operation, {**arguments, **proof}, hint="; it is harmless to repeat")


def change(config_path: str | None, operation: str, operation_id: str | None, /, **arguments: Any) -> Any:
    """Do one change, once under its id, which is made when there is none.

    Raises:
        Refusal: it cannot be done, or it may have happened; then the text says how to repeat it.
    """
    chosen = operation_id or f"op_{secrets.token_hex(16)}"
    hint = f"; it may have happened: repeat it with --operation-id {chosen}, and it happens once"
    return _repeat(_sender(config_path), operation, {**arguments, "operation_id": chosen}, hint=hint)


def operate_on_node(config_path: str | None, operation: str, /, **arguments: Any) -> Any:
    """Do an operation that only a running node can do, and that is harmless to repeat.

    Raises:
        Refusal: no node runs, or it refuses.
    """
    return operate(config_path, operation, do_here=_refuse_here, **arguments)


def pages(config_path: str | None, operation: str, /, **arguments: Any) -> Iterator[list[dict[str, Any]]]:
    """Every entry of a list, page by page.

    Raises:
        Refusal: it cannot be read.
    """
    after = None
    while True:
        page = operate(config_path, operation, after=after, limit=_PAGE, **arguments)
        yield page
        if len(page) < _PAGE:
            return
        after = page[-1]["id"]


def _repeat(sender: _Sender, operation: str, arguments: Mapping[str, Any], *, hint: str) -> Any:
    """Send it again while it may have happened; `hint` is said when that stays unknown."""
    sent = {key: value for key, value in arguments.items() if value is not None}
    why: Exception | None = None
    for pause_s in (*_REPEATS_S, None):
        try:
            return sender.send(operation, sent)
        except _Unsettled as exc:
            why = exc
        except _NotSent as exc:
            if why is None:  # nothing had begun before either
                raise
            why = exc
        if pause_s is not None:
            time.sleep(pause_s)
    raise Refusal(f"{why}{hint}") from why


@dataclass(frozen=True, slots=True)
class _Watch:
    """The operation that tells how far another has come, its arguments, and who is told."""

    operation: str
    arguments: Mapping[str, Any]
    say_rows: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class _Sender:
    """Where operations are done, on one config."""

    config: Config
    secrets: Secrets
    do_here: DoHere
    watch: _Watch | None = None
    """Without one, the answer has to come in time."""

    def send(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Do it once; while somebody has the store whom one cannot ask, wait a while.

        Raises:
            Refusal, _NotSent, _Unsettled: it was not done, could not be begun, or may have been done.
        """
        question = AdminQuestion("POST", f"/admin/{operation}", _encoded(arguments))
        for pause_s in (*_TRIES_S, None):
            try:
                if admin_url := _node_of(self.config):
                    return _result(run(partial(_ask_node, admin_url, self.secrets.admin_token, question, self.watch)))
                return run(partial(self.do_here, self.config, self.secrets, operation, arguments))
            except AdminUnreached as exc:
                if pause_s is None:
                    raise _NotSent(f"the running node does not answer at {admin_url}: {exc}") from exc
            except Refusal as exc:
                if isinstance(exc.__cause__, CommitUnknown):
                    raise _Unsettled(str(exc)) from exc
                if not isinstance(exc.__cause__, StorageError):
                    raise
                if not isinstance(exc.__cause__, StoreInUse) or pause_s is None:
                    raise _NotSent(*exc.lines) from exc
            time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")


def _sender(config_path: str | None, do_here: DoHere | None = None) -> _Sender:
    config = read_config(config_path)
    return _Sender(config, read_secrets(config), do_here or _do_here)


def _node_of(config: Config) -> str | None:
    """The admin address of the node that has the store, empty while it has not said it; None while none runs.

    A database is nobody's own, so there it is whoever answers at the config's admin address: this machine's node.
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
    raise Refusal("no node runs on this store")


def _encoded(arguments: Mapping[str, Any]) -> bytes:
    """The arguments as a node takes them; what cannot be sent to a node is refused without one just the same."""
    try:
        return orjson.dumps(arguments)
    except orjson.JSONEncodeError as exc:
        raise Refusal(f"an argument cannot be used: {exc}", exit_code=2) from exc


async def _ask_node(admin_url: str, token: str, question: AdminQuestion, watch: _Watch | None) -> AdminAnswer:
    ask = partial(ask_proved, admin_url, token)
    try:
        if watch is None:
            with trio.fail_after(_ANSWER_S):
                return await ask(question)
        progress = AdminQuestion("POST", f"/admin/{watch.operation}", _encoded(watch.arguments))
        return await ask_watched(ask, question, progress, say_rows=watch.say_rows, patience_s=_ANSWER_S)
    except AdminSlow as exc:
        raise _NotSent(f"the running node does not answer at {admin_url}: {exc}") from exc
    except AdminUnproved as exc:
        place = admin_url.removeprefix("http://")
        raise _NotSent(f"what listens on {place} is not this node: {exc}; it was told nothing") from exc
    except AdminSilent as exc:
        raise _Unsettled(f"the running node does not answer at {admin_url}: {exc}") from exc
    except trio.TooSlowError as exc:
        raise _Unsettled(f"the running node does not answer at {admin_url} within {_ANSWER_S:g} s") from exc


def _result(answer: AdminAnswer) -> Any:
    """The result of an operation, from a node's answer.

    Raises:
        Refusal, _Unsettled: it refuses; it may have been done.
    """
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError as exc:
        raise _Unsettled("the running node's answer cannot be read") from exc
    if answer.status == 200:
        return found
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(error, str):
        raise _Unsettled(f"the running node failed with status {answer.status}")
    if found.get("may_have_happened"):
        raise _Unsettled(error)
    raise Refusal(error)
