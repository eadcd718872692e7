"""Chooses the next deliveries, as a pure function, so that no host and no account can block the others."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class DueDelivery(NamedTuple):
    """A delivery that is ready now or later. Instances sort by time."""

    next_at: float
    host: str
    account_id: str
    id: str


def in_turn(
    due: Iterable[DueDelivery], busy: Iterable[DueDelivery], *, free: int, host_max: int, account_max: int
) -> list[DueDelivery]:
    """Return at most `free` deliveries to start, chosen one after another.

    Each is the oldest delivery that can start of the account with the fewest attempts. `busy` contains the attempts in
    progress, which may reach at most `host_max` per host and `account_max` per account.
    """
    busy = list(busy)
    hosts, accounts = Counter(one.host for one in busy), Counter(one.account_id for one in busy)
    lines: defaultdict[str, deque[DueDelivery]] = defaultdict(deque)
    for one in sorted(due):
        lines[one.account_id].append(one)
    turns = [(accounts[account_id], line[0], account_id) for account_id, line in lines.items()]
    heapq.heapify(turns)
    taken: list[DueDelivery] = []
    while turns and len(taken) < free:
        count, _, account_id = heapq.heappop(turns)
        line = lines[account_id]
        chosen = _next_of(line, hosts, host_max) if count < account_max else None
        if chosen is not None:
            taken.append(chosen)
            hosts[chosen.host] += 1
            if line:
                heapq.heappush(turns, (count + 1, line[0], account_id))
    return taken


def _next_of(line: deque[DueDelivery], hosts: Mapping[str, int], host_max: int) -> DueDelivery | None:
    """Return the first delivery of an account's line whose host has room. Deliveries before it have to wait."""
    while line:
        one = line.popleft()
        if hosts[one.host] < host_max:
            return one
    return None
