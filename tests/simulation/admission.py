"""Admission under observation: both limits are compared with separate counts of admitted and running requests."""

from __future__ import annotations

from collections import defaultdict

import trio

from gateway.api.admission import Admission
from gateway.http.request import Caller
from limits.errors import ConcurrencyReached, RateLimited
from limits.gate import MemoryGate
from tests.simulation.requests import CURRENT, Sent
from tests.simulation.trace import Trace

PERIOD_S = 60.0
WINDOW = "never more than the limit in any 60 s, never a refusal below it"
LEASES = "leases are the running requests, at most the limit"
UNTOUCHED = "a refusal changes no counter"
RETRY_AFTER = "Retry-After is when a slot frees"


class Gate:
    """The requests that one node admitted, with the limits that applied."""

    def __init__(self, trace: Trace, *, per_minute: int, at_once: int) -> None:
        self.trace = trace
        self.per_minute = per_minute
        self.at_once = at_once
        self.admitted_at: dict[str, list[float]] = defaultdict(list)
        self.running: dict[str, set[Sent]] = defaultdict(set)
        self.telling: set[Sent] = set()

    def tell(self, sent: Sent) -> None:
        """Record that the last piece of an answer is being sent.

        The request then has no lease. If the answer is a stream of events, the request may still have one.
        """
        if sent.wants_events:
            self.telling.add(sent)
        else:
            self.leave(sent)

    def leave(self, sent: Sent) -> None:
        """Record that a request has ended."""
        self.telling.discard(sent)
        if sent.holder is not None:
            self.running[sent.holder.key_id].discard(sent)

    def recent(self, key_id: str, now: float) -> list[float]:
        """Return the admissions that still count toward the window."""
        return [at for at in self.admitted_at[key_id] if at + PERIOD_S > now]

    def compare(self, admission: Admission) -> None:
        """Compare the node's leases with the running requests."""
        own = gate_of(admission)
        for key_id, running in self.running.items():
            held = own.leases.count(key_id)
            if not len(running - self.telling) <= held <= len(running):
                names = sorted(sent.name for sent in running)
                self.trace.hold(False, LEASES, f"{key_id} holds {held}, running are {names}")


class WatchedAdmission(Admission):
    """A node's admission. The simulation checks each of its verdicts."""

    watch: Gate

    def enter_nowait(self, caller: Caller) -> bool:
        gate, own, key_id, now = self.watch, gate_of(self), caller.key.id, trio.current_time()
        before = own.window.look(key_id, now), own.leases.count(key_id)
        gate.compare(self)  # checks that there is one lease per running request
        recent, running = gate.recent(key_id, now), before[1]
        is_open, has_room = len(recent) < gate.per_minute, running < gate.at_once
        try:
            is_let_in = super().enter_nowait(caller)
        except (RateLimited, ConcurrencyReached) as refusal:
            after = own.window.look(key_id, now), own.leases.count(key_id)
            gate.trace.hold(before == after, UNTOUCHED, f"{key_id}: {before} became {after}")
            if isinstance(refusal, RateLimited):
                gate.trace.hold(not is_open, WINDOW, f"{key_id} was refused after {len(recent)} admissions")
                frees_in_s = recent[-gate.per_minute] + PERIOD_S - now
                told_s = refusal.state.retry_after_s
                gate.trace.hold(frees_in_s - 1e-6 <= told_s < frees_in_s + 1, RETRY_AFTER, f"{told_s} of {frees_in_s}")
            else:
                gate.trace.hold(is_open and not has_room, LEASES, f"{key_id} was refused with {running} running")
            raise
        gate.trace.hold(is_open, WINDOW, f"{key_id} was admitted after {len(recent)}")
        gate.trace.hold(has_room, LEASES, f"{key_id} was admitted with {running} running")
        gate.admitted_at[key_id] = [*recent, now]
        gate.running[key_id].add(CURRENT.get())
        return is_let_in


def gate_of(admission: Admission) -> MemoryGate:
    """Return the node's own gate."""
    assert isinstance(admission.gate, MemoryGate)
    return admission.gate


def watch(admission: Admission, gate: Gate) -> None:
    """Put a node's admission under observation."""
    admission.__class__ = WatchedAdmission
    assert isinstance(admission, WatchedAdmission)
    admission.watch = gate
