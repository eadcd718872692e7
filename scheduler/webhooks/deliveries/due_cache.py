"""A node's cache of ready deliveries, so that it does not read the queue for each new delivery and finished attempt.

A line is the queue of one account for one host. The cache has the oldest deliveries of each line; the line is truncated
if the store has more of them. A cached delivery may no longer be available when it is leased; leasing detects that.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from scheduler.webhooks.deliveries.turns import DueDelivery, in_turn

HOST_MAX: Final = 8
"""The maximum number of concurrent attempts of one node at one receiving host (decisions 12)."""
ACCOUNT_MAX: Final = 64
"""The maximum number of one account's attempts in progress on a node."""
KNOWN_MAX: Final = 10_000

Line: TypeAlias = tuple[str, str]
"""A host and an account."""


class QueueLook(NamedTuple):
    """The ready deliveries that a read of the queue returned, and the seconds until the next ones.

    `after` is the last line that was read, or None if the read reached the end of the queue.
    """

    due: list[DueDelivery]
    truncated: set[Line]
    next_in_s: float | None
    after: Line | None


class DueCache:
    """Ready deliveries that have not started. The node's delivery loop changes it, and commits add new deliveries."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._hosts: dict[str, dict[str, deque[DueDelivery]]] = {}
        self._ids: set[str] = set()
        self._truncated: set[Line] = set()
        self._unloaded: set[Line] = set()
        """Truncated lines with no delivery in the cache."""
        self._queued_meanwhile: list[DueDelivery] | None = None

    def has_more(self) -> bool:
        """Return whether deliveries wait for attempts in progress to end."""
        return bool(self._ids or self._unloaded)

    def add_queued(self, due: DueDelivery) -> None:
        """Add a delivery that a commit has queued, at the end of its line."""
        if self._queued_meanwhile is None:
            self._add_last(due)
        else:
            self._queued_meanwhile.append(due)

    def begin_look(self) -> None:
        """Record that a read of the queue has begun. It may or may not include deliveries queued from now on."""
        self._queued_meanwhile = []

    def end_look(self, look: QueueLook | None, under_way: Collection[DueDelivery], *, from_start: bool) -> None:
        """Store the deliveries that the read returned. If `from_start` is set, empty the cache first.

        `look` is None if the read failed.
        """
        queued_meanwhile, self._queued_meanwhile = self._queued_meanwhile or (), None
        if look is not None:
            if from_start:
                self._forget()
            begun = {one.id for one in under_way}
            for one in look.due:
                if one.id not in begun:
                    self._add(one)
            self._truncated |= look.truncated
            self._unloaded |= {line for line in look.truncated if not self._line(line)}
        for one in queued_meanwhile:
            self._add_last(one)
        if len(self._ids) > KNOWN_MAX:
            self._forget_blocked(Counter(one.host for one in under_way))

    def choose(self, under_way: Collection[DueDelivery], *, free: int) -> list[DueDelivery]:
        """Remove and return at most `free` deliveries to start now, chosen by `in_turn`."""
        hosts = Counter(one.host for one in under_way)
        due = (
            one
            for host, lines in self._hosts.items()
            if hosts[host] < HOST_MAX
            for line in lines.values()
            for one in islice(line, HOST_MAX)
        )
        chosen = in_turn(due, under_way, free=free, host_max=HOST_MAX, account_max=ACCOUNT_MAX)
        for one in chosen:
            self._remove(one)
        return chosen

    def is_short(self, under_way: Collection[DueDelivery]) -> bool:
        """Return whether a read would return deliveries to start, because a line without cached deliveries has room."""
        if not self._unloaded:
            return False
        hosts, accounts = Counter(one.host for one in under_way), Counter(one.account_id for one in under_way)
        return any(hosts[host] < HOST_MAX and accounts[account] < ACCOUNT_MAX for host, account in self._unloaded)

    def _add_last(self, due: DueDelivery) -> None:
        """Add a delivery at the end of its line, but only if the whole line is in the cache."""
        line = (due.host, due.account_id)
        if line in self._truncated:
            return
        if len(self._ids) < KNOWN_MAX:
            self._add(due)
        elif due.id not in self._ids:
            self._truncated.add(line)
            if not self._line(line):
                self._unloaded.add(line)

    def _add(self, due: DueDelivery) -> None:
        if due.id not in self._ids:
            self._ids.add(due.id)
            self._hosts.setdefault(due.host, {}).setdefault(due.account_id, deque()).append(due)
            self._unloaded.discard((due.host, due.account_id))

    def _remove(self, due: DueDelivery) -> None:
        lines = self._hosts[due.host]
        line = lines[due.account_id]
        line.remove(due)
        self._ids.discard(due.id)
        if not line:
            self._drop(due.host, due.account_id)

    def _drop(self, host: str, account_id: str) -> None:
        """Remove a line from the cache."""
        lines = self._hosts[host]
        self._ids.difference_update(one.id for one in lines.pop(account_id))
        if not lines:
            del self._hosts[host]
        if (host, account_id) in self._truncated:
            self._unloaded.add((host, account_id))

    def _line(self, line: Line) -> Collection[DueDelivery]:
        return self._hosts.get(line[0], {}).get(line[1], ())

    def _forget(self) -> None:
        self._hosts.clear()
        self._ids.clear()
        self._truncated.clear()
        self._unloaded.clear()

    def _forget_blocked(self, hosts: Counter[str]) -> None:
        """Drop the lines of hosts without room from the cache. A later read returns them again."""
        for host in [host for host in self._hosts if hosts[host] >= HOST_MAX]:
            for account_id in list(self._hosts[host]):
                self._truncated.add((host, account_id))
                self._drop(host, account_id)
