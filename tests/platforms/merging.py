"""Merges the generated calls of a stand-in into its previous file, which a person may have edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.platforms.made_calls import Json, MadeCall
from tests.platforms.playing import Exchange
from tests.platforms.templates import ALL
from upstreams.sandbox.made import routes_of
from upstreams.sandbox.site import by_host, match

_KEPT = ("when", "of", "each", "parts", "headers", "status", "missing", "throttled", "broken")
"""The members of a call whose values in the previous file are kept."""


def is_kept_whole(call: Json) -> bool:
    """Return whether a call was written by hand. The tool never changes such a call."""
    return "text" in call or bool(call.get("by_hand"))


def served_by_hand(before: Json, exchanges: Sequence[Exchange]) -> tuple[list[MadeCall], list[Exchange]]:
    """Return the handwritten calls of the previous file with the exchanges that they answer, and all other exchanges.

    A call may match more paths than that of one exchange. An exchange for which the file has a generated call is left
    to that call.
    """
    calls, aliases = before.get("calls", ()), before.get("aliases", {})
    routes = {route: call for call in calls for route in routes_of("", {"aliases": aliases, "calls": [call]})}
    of_host, generated = by_host(routes), {call["call"] for call in calls if not is_kept_whole(call)}
    served: dict[tuple[str, str], MadeCall] = {}
    others: list[Exchange] = []
    for exchange in exchanges:
        found = None if exchange.pattern in generated else match(of_host, exchange.request)
        call: Json = routes[found[0]] if found is not None else {}
        if is_kept_whole(call):
            served.setdefault(_identity(call), MadeCall(call, [])).exchanges.append(exchange)
        else:
            others.append(exchange)
    return list(served.values()), others


def head_of(before: Json, aliases: Mapping[str, str]) -> Json:
    """Return the file without its calls. Aliases that the platform declares are added."""
    known: Json = before.get("aliases", {})
    added = {alias: host for alias, host in aliases.items() if alias not in known}
    usual: Json = {"aliases": known, "failures": {}} if added and not known else {"failures": {}}
    head = {**{name: value for name, value in usual.items() if name not in before}, **before}
    head.pop("calls", None)
    return {**head, "aliases": {**known, **added}} if added else head


def merge(before: Json, made: Sequence[MadeCall]) -> tuple[list[MadeCall], list[str]]:
    """Return the calls in the order of the previous file, with its edits, and what was left out."""
    notes: list[str] = []
    generated = {_identity(one.call): one for one in made}
    merged: dict[tuple[str, str], MadeCall] = {}
    for call in before.get("calls", ()):
        identity = _identity(call)
        if identity in merged:
            notes.append(f"dropped: {call['call']}: the file has this call twice")
        elif is_kept_whole(call):
            own = generated.pop(identity, None)
            merged[identity] = MadeCall(call, own.exchanges if own else [])
        elif identity in generated:
            merged[identity] = _merged(generated.pop(identity), call, before.get("failures", {}), notes)
        else:
            notes.append(f"dropped: {_named(call)}: no case makes this call; with `by_hand` it is kept")
    added = [_without_failures(one, before.get("failures", {})) for one in generated.values()]
    for one in (*merged.values(), *added):
        notes += [note.replace(": ", f": {_named(one.call)}: ", 1) for note in one.notes]
    return [*merged.values(), *added], notes


def _without_failures(made: MadeCall, failures: Json) -> MadeCall:
    """Return the call without the failures that the file describes for the whole platform."""
    return made._replace(call={name: value for name, value in made.call.items() if name not in failures})


def _identity(call: Json) -> tuple[str, str]:
    return call["call"], str(sorted(call.get("when", {}).items()))


def _named(call: Json) -> str:
    when = "".join(f" {name}={value}" for name, value in call.get("when", {}).items() if value is not None)
    return f"{call['call']}{when}"


def _merged(made: MadeCall, before: Json, failures: Json, notes: list[str]) -> MadeCall:
    """Return the generated call, with the manual edits of the previous one."""
    call = {**made.call, **{name: before[name] for name in _KEPT if name in before}}
    for word in ("throttled", "broken"):
        if word in call and word not in before:
            told = call.pop(word)
            if word not in failures:
                notes.append(f"{_named(call)}: a case has an answer for `{word}` that the file lacks: {told}")
    lost = [name for name in before if name not in (*_KEPT, "call", "body") and before[name] != call.get(name)]
    notes += [f"dropped: {_named(call)}: `{name}` of the file, {before[name]}" for name in lost]
    if "body" in before:
        edits = _Edits(_named(call), notes)
        call["body"] = edits.kept(call["body"], before["body"]) if "body" in call else before["body"]
    ordered = {name: call[name] for name in before if name in call}
    return made._replace(call={**ordered, **call})


class _Edits:
    """Keeps the edits in the body of one call."""

    def __init__(self, call: str, notes: list[str]) -> None:
        self._call = call
        self._notes = notes

    def kept(self, made: Any, before: Any, path: str = "") -> Any:
        """Return the previous template, with new members added and unused ones removed."""
        if isinstance(made, dict) and isinstance(before, dict):
            return self._kept_members(made, before, path)
        if isinstance(made, list) and isinstance(before, list):
            mark, own = before[: before[:1] == [ALL]], [one for one in made if one != ALL]
            known = before[len(mark) :]
            if own and known:
                return [*mark, self.kept(own[0], known[0], f"{path}[]"), *known[1:]]
            return made or before
        if isinstance(made, dict | list) and made:
            line = f"the file has {before!r} at `{path}`, and the cases have members there"
            self._notes.append(f"{self._call}: {line}")
        return before

    def _kept_members(self, made: Json, before: Json, path: str) -> Json:
        added = {name.removesuffix("?"): name for name in made}
        found: Json = {}
        for name in before:
            plain = name.removesuffix("?")
            own = f"{path}.{plain}" if path else plain
            if plain in added:
                found[name] = self.kept(made[added.pop(plain)], before[name], own)
            else:
                line = f"`{own}`, because no reader reads it in any case"
                self._notes.append(f"dropped: {self._call}: {line}")
        return {**found, **{name: made[name] for name in added.values()}}
