"""The answers that clients received from a node that dies repeatedly, compared with the store at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

VARYING = ("credits_used", "credits_remaining", "idempotent_replay")


@dataclass
class Life:
    """The answers to plain calls of one process of the node, in order of arrival.

    A plain call is settled after its answer, and the store keeps the order of its writes. If a call was sent after an
    answer and has been charged, the settlement of that answer is therefore durable. `sure` counts the answers whose
    settlement is proved in this way.
    """

    answers: list[tuple[str, int]] = field(default_factory=list)
    sure: int = 0

    def sent(self) -> int:
        """Return how many answers had arrived when a call was sent."""
        return len(self.answers)

    def charged(self, request_id: str, used: int, *, sent: int) -> None:
        """Record a plain call that was charged and answered."""
        self.answers.append((request_id, used))
        self.sure = max(self.sure, sent)


@dataclass(frozen=True, slots=True)
class Finished:
    """The outcome of an idempotency key as first seen."""

    target: str
    no_cache: bool
    status: int
    request_id: str
    content: dict[str, Any]
    """The envelope, without the fields that a replay may change."""

    @property
    def is_paid(self) -> bool:
        """Return whether the request must have been charged. A success is charged unless it comes from the cache."""
        return self.status == 200 and not self.content["cached"]


@dataclass
class Seen:
    """Everything that all clients saw. `exact` is the exact final cost of each answered request."""

    exact: dict[str, int] = field(default_factory=dict)
    settling: dict[str, int] = field(default_factory=dict)
    """Requests whose settlement a kill may have interrupted: either paid as answered, or refunded."""
    finished: dict[str, Finished] = field(default_factory=dict)
    granted: int = 0
    perhaps_granted: int = 0
    revoked: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def end(self, life: Life) -> None:
        """Add the records of a process that has ended."""
        self.exact |= dict(life.answers[: life.sure])
        self.settling |= dict(life.answers[life.sure :])

    def finish(self, key: str, finished: Finished) -> None:
        """Check that every later outcome of an idempotency key equals the first one."""
        first = self.finished.setdefault(key, finished)
        assert first == finished, f"{key} was answered twice: {first} {finished}"


def content_of(envelope: dict[str, Any]) -> dict[str, Any]:
    """Return an envelope without the fields that a replay may change."""
    return {name: value for name, value in envelope.items() if name not in VARYING}


def check_costs(seen: Seen, net: dict[str, int], partial: dict[str, int]) -> None:
    """Compare with the ledger.

    `net` has the cost of each request. `partial` has the requests that cost less than was reserved.
    """
    for request_id, used in seen.exact.items():
        assert net.get(request_id, 0) == used, f"{request_id} answered {used} and cost {net.get(request_id, 0)}"
    for request_id, used in seen.settling.items():
        assert net.get(request_id, 0) in (0, used), f"{request_id} answered {used} and cost {net[request_id]}"
    owners = [one.request_id for one in seen.finished.values()]
    assert len(owners) == len(set(owners)), "each request belongs to one key"
    paid = {one.request_id for one in seen.finished.values() if one.is_paid}
    assert all(net.get(owner, 0) > 0 for owner in paid), "each finished key must be paid"
    assert all(net.get(owner, 0) == 0 for owner in owners if owner not in paid)
    # The remaining requests have no known answer. Only composites may have a cost here, because their answer may be
    # lost after a partial refund.
    answered = seen.exact.keys() | seen.settling.keys() | set(owners)
    lost = {request_id for request_id, cost in net.items() if cost and request_id not in answered}
    assert lost <= partial.keys(), f"paid and never answered: {sorted(lost - partial.keys())}"
    assert sum(net[request_id] for request_id in net.keys() - lost) <= sum(
        [*seen.exact.values(), *seen.settling.values(), *(net[owner] for owner in paid)]
    )
