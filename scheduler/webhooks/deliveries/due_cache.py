"""Remembers the due deliveries of a node, so that it need not read the queue for each new delivery and ended attempt.

A line is the deliveries that one account has queued for one host. The cache holds the oldest of each line; behind those
of a truncated line the store has more. A delivery here may be gone by the time it is leased: the lease finds out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from scheduler.webhooks.deliveries.turns import DueDelivery, in_turn

HOST_MAX: Final = 8
"""Attempts at a time at one receiving host, of one node (decisions 12)."""
ACCOUNT_MAX: Final = 64
"""Attempts of one account that a node has under way."""
KNOWN_MAX: Final = 10_000

Line: TypeAlias = tuple[str, str]
"""A host and an account."""


class QueueLook(NamedTuple):
    """The deliveries that a look at the queue found due, and the seconds until others are.

    `after`: the lines behind that one were not looked at yet.
    """

    due: list[DueDelivery]
    cut: set[Line]
    next_in_s: float | None
    after: Line | None


class DueCache:
    """Deliveries that are due and not begun. Changed by its node's loop, and by what commits tell."""

    def __init__(self) -> None:
        """Nothing is known before the first look."""
        self._hosts: dict[str, dict[str, deque[DueDelivery]]] = {}
        self._ids: set[str] = set()
        self._cut: set[Line] = set()
        self._dry: set[Line] = set()
        """Lines that are cut so short that none of them is known."""
        self._news: list[DueDelivery] | None = None

    def has_more(self) -> bool:
        """Whether something waits for attempts that are under way to end."""
        return bool(self._ids or self._dry)

    def tell(self, due: DueDelivery) -> None:
        """A commit has queued this one, last of its line."""
        if self._news is None:
            self._add_last(due)
        else:
            self._news.append(due)

    def begin_look(self) -> None:
        """A look is under way; it may or may not see what is told from now on."""
        self._news = []

    def end_look(self, look: QueueLook | None, under_way: Collection[DueDelivery], *, anew: bool) -> None:
        """Add the deliveries that the look found, in place of all older ones if it began `anew`.

        None: it failed.
        """
        news, self._news = self._news or (), None
        if look is not None:
            if anew:
                self._forget()
            begun = {one.id for one in under_way}
            for one in look.due:
                if one.id not in begun:
                    self._add(one)
            self._cut |= look.cut
            self._dry |= {line for line in look.cut if not self._line(line)}
        for one in news:
            self._add_last(one)
        if len(self._ids) > KNOWN_MAX:
            self._forget_blocked(Counter(one.host for one in under_way))

    def choose(self, under_way: Collection[DueDelivery], *, free: int) -> list[DueDelivery]:
        """At most `free` to begin now, by `in_turn`; they are not known any more."""
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
        """Whether a look would find something to begin: there is room for a line of which none is known."""
        if not self._dry:
            return False
        hosts, accounts = Counter(one.host for one in under_way), Counter(one.account_id for one in under_way)
        return any(hosts[host] < HOST_MAX and accounts[account] < ACCOUNT_MAX for host, account in self._dry)

    def _add_last(self, due: DueDelivery) -> None:
        """Behind all others of its line, so only if those are known."""
        line = (due.host, due.account_id)
        if line in self._cut:
            return
        if len(self._ids) < KNOWN_MAX:
            self._add(due)
        elif due.id not in self._ids:
            self._cut.add(line)
            if not self._line(line):
                self._dry.add(line)

    def _add(self, due: DueDelivery) -> None:
        if due.id not in self._ids:
            self._ids.add(due.id)
            self._hosts.setdefault(due.host, {}).setdefault(due.account_id, deque()).append(due)
            self._dry.discard((due.host, due.account_id))

    def _remove(self, due: DueDelivery) -> None:
        lines = self._hosts[due.host]
        line = lines[due.account_id]
        line.remove(due)
        self._ids.discard(due.id)
        if not line:
            self._drop(due.host, due.account_id)

    def _drop(self, host: str, account_id: str) -> None:
        """Know nothing more of a line."""
        lines = self._hosts[host]
        self._ids.difference_update(one.id for one in lines.pop(account_id))
        if not lines:
            del self._hosts[host]
        if (host, account_id) in self._cut:
            self._dry.add((host, account_id))

    def _line(self, line: Line) -> Collection[DueDelivery]:
        return self._hosts.get(line[0], {}).get(line[1], ())

    def _forget(self) -> None:
        self._hosts.clear()
        self._ids.clear()
        self._cut.clear()
        self._dry.clear()

    def _forget_blocked(self, hosts: Counter[str]) -> None:
        """Leave lines to the store whose host has no room; a look finds them again when it has."""
        for host in [host for host in self._hosts if hosts[host] >= HOST_MAX]:
            for account_id in list(self._hosts[host]):
                self._cut.add((host, account_id))
                self._drop(host, account_id)
