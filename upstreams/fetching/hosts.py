"""Sources whose hosts are named by callers. Each host has its own breaker, rate limit and retries.

The table of hosts is bounded: the least recently called host is evicted. The operator's credentials are never sent to
any of these hosts, regardless of what a read puts into a call. If a host's own answer shows that it does not run the
platform's software, this is remembered for a while, and further calls from the same account to that host are refused
before they are charged.
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
"""Creates the source for the base address of a host."""


@dataclass(slots=True)
class _Known:
    source: Source
    is_proven: bool = False
    """Whether an answer of the host has shown that it runs the platform's software."""


class NamedSource:
    """A source of a platform at all hosts that callers name, used like a single `Source`; see `ask`.

    With `are_ours`, the hosts belong to the platform and callers choose one of them. With a `default` but without
    `are_ours`, the hosts run the platform's software, and hosts of other known platforms are refused.
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
        self._other_until: OrderedDict[tuple[str, str], float] = OrderedDict()
        """Refused hosts, which do not run the platform's software, with the end of the refusal. Only the account that
        called the host is affected."""
        self._evicted_statistics = SourceStatistics(**dict.fromkeys(_COUNTS, 0))
        self._rules: Rules | None = None
        self.breaker_rules: BreakerRules | None = None
        """The most recent rules, for sources that are created later."""
        self.opened_before = self.refused_before = 0
        """Counters of breakers whose hosts were evicted."""
        self.is_isolated = False

    def host(self, value: str) -> str:
        """Return the host for a value of the parameter. The value may be only a part of the host name."""
        return self._host.replace(f"{{{self.param}}}", value)

    def checked(self, host: str, account_id: str = "") -> str:
        """Return the normalized host, after checking its name and the outcome of this account's earlier calls to it.

        Raises:
            TargetRefused: The host is refused; the message is for the caller.
        """
        try:
            target = check_url(f"{urlsplit(self._template).scheme}://{host}/", rules=self._target_rules)
        except TargetRefused as exc:
            raise _reworded(exc) from exc
        if target.path != "/":
            raise TargetRefused("host", "must be a host name without a path")
        named = target.origin_at("").authority
        if self._default is not None and not self._are_ours and owner_of(target.host) is not None:
            raise self._other_refusal(named)
        if self._other_until.get((named, account_id), 0.0) > self._now():
            raise self._other_refusal(named)
        return named

    def source_at(self, host: str) -> Source:
        """Return the source at a host."""
        return self._at(host).source

    async def ask(
        self, request: HttpCall, deadline_at: float, call: Call, *, waits: bool, account_id: str = ""
    ) -> Answer:
        """See `Source.ask`; `request` was made from `call`.

        Raises:
            TargetRefused: The host is not public, has no address, or does not run the platform's software.
        """
        host, known = call.host, self._at(call.host)
        if any(secret in part for secret in self._secrets for part in _parts(request)):
            raise UpstreamFailed(self.name, "credentials are never sent to a host that a caller names")
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
            raise _reworded(exc) from exc
        except UpstreamError as failure:
            if isinstance(failure.__cause__, NameUnknown) and failure.__cause__.is_certain:
                raise TargetRefused("host", f"must name a host that has an address; {host} does not") from failure
            if known.is_proven or not _shows_other_software(failure, call):
                raise
            self._remember_other(host, account_id)
            raise self._other_refusal(host) from failure
        known.is_proven = known.is_proven or not isinstance(call.accepts, Form)
        return answer

    def statistics(self) -> SourceStatistics:
        """Return the current statistics, summed over all hosts."""
        records = [self._evicted_statistics, *(one.source.statistics() for one in self._known.values())]
        return SourceStatistics(**{name: sum(getattr(one, name) for one in records) for name in _COUNTS})

    def sources(self) -> dict[str, Source]:
        """Return the source of each known host."""
        return {host: known.source for host, known in self._known.items()}

    def counts(self) -> tuple[int, int]:
        """Return the number of known hosts, and the number of those with an open circuit."""
        return len(self._known), sum([known.source.breaker.state == "open" for known in self._known.values()])

    def change(self, rules: Rules) -> None:
        """Apply new rules to every host."""
        self._rules = rules
        for source in self.sources().values():
            source.change(rules)

    @property
    def default_state(self) -> State:
        """The state of the default host's circuit. Only this host represents the platform."""
        if self.is_isolated:
            return "open"
        known = self._known.get(self._default or "")
        return "closed" if known is None else known.source.breaker.state

    def _at(self, host: str) -> _Known:
        known = self._known.get(host)
        if known is None:
            self._make_room()
            known = self._known[host] = _Known(
                self._new_source(host), is_proven=self._are_ours or host == self._default
            )
        self._known.move_to_end(host)
        return known

    def _new_source(self, host: str) -> Source:
        source = self._make(self._template.replace(self._host, host))
        if self._rules is not None:
            source.change(self._rules)
        if self.breaker_rules is not None:
            source.breaker.change(self.breaker_rules)
        if self.is_isolated:
            source.breaker.isolate()
        return source

    def _make_room(self) -> None:
        """If the table is full, evict the least recently called host, preferably one without calls in flight."""
        while len(self._known) >= self._hosts_max:
            idle = (host for host, one in self._known.items() if not one.source.statistics().in_flight)
            host = next(idle, None) or next(iter(self._known))
            forgotten = self._known.pop(host).source
            gone, circuit = forgotten.statistics(), forgotten.breaker.statistics()
            self.opened_before += circuit.opened_total
            self.refused_before += circuit.refused_total
            counts = {name: getattr(self._evicted_statistics, name) for name in _COUNTS}
            counts |= {name: counts[name] + getattr(gone, name) for name in _COUNTS if name.endswith("_total")}
            self._evicted_statistics = SourceStatistics(**counts)

    def _remember_other(self, host: str, account_id: str) -> None:
        self._other_until[host, account_id] = self._now() + OTHER_FOR_S
        while len(self._other_until) > OTHERS_MAX:
            self._other_until.popitem(last=False)

    def _other_refusal(self, host: str) -> TargetRefused:
        return TargetRefused("software", f"must be a {self._title} server; {host} is not")


class HostBreakers:
    """The circuits of a `NamedSource` as one circuit, with the state of the default host."""

    def __init__(self, named: NamedSource) -> None:
        self._named = named

    @property
    def state(self) -> State:
        """See `Breaker.state`."""
        return self._named.default_state

    def isolate(self) -> None:
        """Block every host, including hosts that callers name later."""
        self._named.is_isolated = True
        for source in self._named.sources().values():
            source.breaker.isolate()

    def reset(self) -> None:
        """Close every circuit."""
        self._named.is_isolated = False
        for source in self._named.sources().values():
            source.breaker.reset()

    def change(self, rules: BreakerRules) -> None:
        """Apply new rules to every host."""
        self._named.breaker_rules = rules
        for source in self._named.sources().values():
            source.breaker.change(rules)

    def statistics(self) -> BreakerStatistics:
        """Return the current statistics: counters summed over the hosts, and the state of the default host."""
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


def _reworded(refusal: TargetRefused) -> TargetRefused:
    """Return the guard's refusal of a URL, reworded for a host name."""
    return TargetRefused(refusal.reason, "must name a public host: " + _URL.sub("it", str(refusal)))


def _shows_other_software(failure: UpstreamError, call: Call) -> bool:
    """Return whether an answer is not the expected JSON, which shows that the host runs other software."""
    is_no_json = isinstance(failure, NoJson) or (isinstance(failure, NotFound) and not failure.spoke_json)
    return is_no_json and not isinstance(call.accepts, Form)


def _parts(request: HttpCall) -> tuple[bytes, ...]:
    return (request.target.encode(), request.body, *(value.encode("utf-8") for _, value in request.headers))
