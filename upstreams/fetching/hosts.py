"""A source of a platform at the hosts that its callers name: each has a breaker, a pace and retries of its own.

The table of them is bounded: the host that was not called for longest makes room. No credential of the operator's goes
to any of them, whatever a read puts into a call. If a host's own answer shows that it does not run the platform's
software, that is remembered for a while, and further calls of the same account are refused before they are charged.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from typing import Final
from urllib.parse import urlsplit

import trio

from limits.breaker import BreakerRules, BreakerStatistics, State
from upstreams.fetching.source import Rules, Source, SourceStatistics
from upstreams.guard.addresses import HTTPS, TargetRules, check_url
from upstreams.guard.known_hosts import owner_of
from upstreams.guard.pinned import NameUnknown
from upstreams.model.errors import NoJson, NotFound, TargetRefused, UpstreamError, UpstreamFailed
from upstreams.model.steps import Answer, Call, Form
from upstreams.transport.http import HttpCall

HOSTS_MAX: Final = 500
OTHERS_MAX: Final = 1_000
OTHER_FOR_S: Final = 600.0

MakeSource = Callable[[str], Source]
"""Makes the source of a base address."""


@dataclass(slots=True)
class _Known:
    source: Source
    is_proven: bool = False
    """It has answered as the platform's software does."""


class NamedSource:
    """One source of a platform at every host that callers name, as if it were one `Source`; see `ask`.

    `are_ours`: they are the platform's own, of which callers choose one. With a `default` and without that, they are
    servers of its software, which hosts of other known platforms are not.
    """

    def __init__(
        self,
        name: str,
        template: str,
        param: str,
        *,
        title: str,
        default: str | None,
        make: MakeSource,
        secrets: Collection[str] = (),
        now: Callable[[], float] = trio.current_time,
        hosts_max: int = HOSTS_MAX,
        are_ours: bool = False,
        rules: TargetRules = HTTPS,
    ) -> None:
        self.name = name
        self.param = param
        self.breaker = HostBreakers(self)
        self._template = template
        self._host = urlsplit(template).netloc
        self._title = title
        self._default = default and self.host(default)
        self._are_ours = are_ours
        self._target_rules = rules
        self._make = make
        self._secrets = tuple(secret.encode() for secret in secrets if secret)
        self._now = now
        self._hosts_max = hosts_max
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._others: OrderedDict[tuple[str, str], float] = OrderedDict()
        """Hosts without the platform's software, until when, by the account that found out: its word binds no other."""
        self._before = SourceStatistics(**dict.fromkeys(_COUNTS, 0))
        self._rules: Rules | None = None
        self.breaker_rules: BreakerRules | None = None
        """Those that came after the sources were first made."""
        self.opened_before = self.refused_before = 0
        """The counts of circuits that were forgotten."""
        self.is_isolated = False

    def host(self, value: str) -> str:
        """Return the host that a value of the parameter stands for, which may be a part of its name."""
        return self._host.replace(f"{{{self.param}}}", value)

    def checked(self, host: str, account_id: str = "") -> str:
        """Return a host in its one spelling, after checking its name and what this account's calls found there.

        Raises:
            TargetRefused: why, in words for the caller.
        """
        try:
            target = check_url(f"{urlsplit(self._template).scheme}://{host}/", rules=self._target_rules)
        except TargetRefused as exc:
            raise _of_a_host(exc) from exc
        if target.path != "/":
            raise TargetRefused("host", "must be the name of a host, and no more")
        named = target.origin_at("").authority
        if self._default is not None and not self._are_ours and owner_of(target.host) is not None:
            raise self._other(named)
        if self._others.get((named, account_id), 0.0) > self._now():
            raise self._other(named)
        return named

    def source_at(self, host: str) -> Source:
        """The source at a host."""
        return self._at(host).source

    async def ask(
        self, request: HttpCall, deadline_at: float, call: Call, *, waits: bool, account_id: str = ""
    ) -> Answer:
        """As `Source.ask`; `call` is the one that `request` was made of.

        Raises:
            TargetRefused: the host is not public, has no address, or does not run the platform's software.
        """
        host, known = call.host, self._at(call.host)
        if any(secret in part for secret in self._secrets for part in _parts(request)):
            raise UpstreamFailed(self.name, "no credential goes to a host that a caller names")
        try:
            answer = await known.source.ask(
                request,
                deadline_at,
                accepts=call.accepts,
                waits=waits,
                again=call.only_reads,
                spacing_s=call.spacing_s,
                account_id=account_id,
            )
        except TargetRefused as exc:
            raise _of_a_host(exc) from exc
        except UpstreamError as failure:
            if isinstance(failure.__cause__, NameUnknown) and failure.__cause__.is_certain:
                raise TargetRefused("host", f"must name a host that has an address, which {host} has not") from failure
            if known.is_proven or not _tells_other_software(failure, call):
                raise
            self._remember_other(host, account_id)
            raise self._other(host) from failure
        known.is_proven = known.is_proven or call.accepts.__class__ is not Form
        return answer

    def statistics(self) -> SourceStatistics:
        """The record of this moment, of all hosts together."""
        records = [self._before, *(one.source.statistics() for one in self._known.values())]
        return SourceStatistics(**{name: sum(getattr(one, name) for one in records) for name in _COUNTS})

    def sources(self) -> dict[str, Source]:
        """The source of each host that is known now."""
        return {host: known.source for host, known in self._known.items()}

    def counts(self) -> tuple[int, int]:
        """Return how many hosts are known now, and how many of them have an open circuit."""
        return len(self._known), sum([known.source.breaker.state == "open" for known in self._known.values()])

    def change(self, rules: Rules) -> None:
        """Take other rules, at every host."""
        self._rules = rules
        for source in self.sources().values():
            source.change(rules)

    @property
    def default_state(self) -> State:
        """The circuit of the host that is called when none is named: no other tells of the platform."""
        if self.is_isolated:
            return "open"
        known = self._known.get(self._default or "")
        return "closed" if known is None else known.source.breaker.state

    def _at(self, host: str) -> _Known:
        known = self._known.get(host)
        if known is None:
            self._make_room()
            known = self._known[host] = _Known(self._made(host), is_proven=self._are_ours or host == self._default)
        self._known.move_to_end(host)
        return known

    def _made(self, host: str) -> Source:
        source = self._make(self._template.replace(self._host, host))
        if self._rules is not None:
            source.change(self._rules)
        if self.breaker_rules is not None:
            source.breaker.change(self.breaker_rules)
        if self.is_isolated:
            source.breaker.isolate()
        return source

    def _make_room(self) -> None:
        """Forget the host that was not called for longest and has no call under way."""
        while len(self._known) >= self._hosts_max:
            idle = (host for host, one in self._known.items() if not one.source.statistics().in_flight)
            host = next(idle, None) or next(iter(self._known))
            forgotten = self._known.pop(host).source
            gone, circuit = forgotten.statistics(), forgotten.breaker.statistics()
            self.opened_before += circuit.opened_total
            self.refused_before += circuit.refused_total
            counts = {name: getattr(self._before, name) for name in _COUNTS}
            counts |= {name: counts[name] + getattr(gone, name) for name in _COUNTS if name.endswith("_total")}
            self._before = SourceStatistics(**counts)

    def _remember_other(self, host: str, account_id: str) -> None:
        self._others[host, account_id] = self._now() + OTHER_FOR_S
        while len(self._others) > OTHERS_MAX:
            self._others.popitem(last=False)

    def _other(self, host: str) -> TargetRefused:
        return TargetRefused("software", f"must be a {self._title} server, which {host} is not")


class HostBreakers:
    """The circuits of a `NamedSource` as one: the state is that of the host which is called when none is named."""

    def __init__(self, named: NamedSource) -> None:
        self._named = named

    @property
    def state(self) -> State:
        """As `Breaker.state`."""
        return self._named.default_state

    def isolate(self) -> None:
        """Keep every host out, also those that are named from now on."""
        self._named.is_isolated = True
        for source in self._named.sources().values():
            source.breaker.isolate()

    def reset(self) -> None:
        """Close every circuit."""
        self._named.is_isolated = False
        for source in self._named.sources().values():
            source.breaker.reset()

    def change(self, rules: BreakerRules) -> None:
        """Take other rules, at every host."""
        self._named.breaker_rules = rules
        for source in self._named.sources().values():
            source.breaker.change(rules)

    def statistics(self) -> BreakerStatistics:
        """The record of this moment: counts of all hosts that are known, the state as above."""
        records = [source.breaker.statistics() for source in self._named.sources().values()]
        return BreakerStatistics(
            state=self.state,
            isolated=self._named.is_isolated,
            failures=sum(one.failures for one in records),
            retry_after_s=0,
            generation=0,
            opened_total=self._named.opened_before + sum(one.opened_total for one in records),
            refused_total=self._named.refused_before + sum(one.refused_total for one in records),
        )


_COUNTS = tuple(one.name for one in fields(SourceStatistics))
_URL = re.compile(r"\bthe URL's host\b|\bthe URL\b")


def _of_a_host(refusal: TargetRefused) -> TargetRefused:
    """The guard's words about an address, as words about a host."""
    return TargetRefused(refusal.reason, "must name a public host: " + _URL.sub("it", str(refusal)))


def _tells_other_software(failure: UpstreamError, call: Call) -> bool:
    """Whether the answer shows that the platform's software is not what answers there: no JSON where it has some."""
    is_no_json = isinstance(failure, NoJson) or (isinstance(failure, NotFound) and not failure.spoke_json)
    return is_no_json and call.accepts.__class__ is not Form


def _parts(request: HttpCall) -> tuple[bytes, ...]:
    return (request.target.encode(), request.body, *(value.encode("utf-8") for _, value in request.headers))
