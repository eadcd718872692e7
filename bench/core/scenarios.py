"""The scenarios: one row for each thing that is measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bench.core.settings import Setting

TRANSPARENT: Mapping[str, Setting] = MappingProxyType(
    {"limits.requests_per_minute": 2_000_000, "limits.concurrent_requests": 10_000, "server.shed": False}
)
"""Limits that refuse nobody, so that what is measured is the work and not the refusal. The window of one key then
holds 16 MB (8 bytes a request), which counts into the resident memory."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The server that a scenario needs, its settings, and how the sandbox upstream behaves.

    `settings` are dotted keys of config.toml; they count for the servers `gateway` and `shared` only.
    """

    server: str = "gateway"
    settings: Mapping[str, Setting] = field(default_factory=lambda: TRANSPARENT)
    latency_ms: float = 0.0
    failure_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of request against one server, and what its answers must look like."""

    name: str
    path: str
    """The request target; `{n}` in it becomes the request's key."""
    stage: Stage = Stage()
    keys: str = "one"
    headers: tuple[tuple[str, str], ...] = ()
    with_key: bool = True
    statuses: tuple[int, ...] = (200,)
    """Answers that count as served."""
    tolerated: tuple[int, ...] = ()
    """Answers that may come too: refusals, counted apart and left out of the latencies."""
    head: str = ""
    """Text in lower case that the head of every served answer but the first must hold."""
    busy: int = 64
    """Connections of the closed loop that finds what the server can do."""
    connections: int = 1_000
    """Most connections of the open loop; one more request waits, and its wait is counted."""
    shares: tuple[float, ...] = (0.2, 0.5, 0.8, 1.0)
    """Offered rates as shares of what the closed loop found."""
    requests: int | None = None
    """Counts so many requests, where set, instead of some seconds."""


_PROFILE = "/v1/github/profile?handle=user{n}"
_FORWARDED = "/api.github.com/users/user{n}"
_SHARED = Stage("shared")
_REFUSING = Stage(settings={**TRANSPARENT, "limits.requests_per_minute": 1})
_SHEDDING = Stage(settings={**TRANSPARENT, "limits.concurrent_requests": 50})
_SMALL_CACHE = Stage(settings={**TRANSPARENT, "cache.max_bytes": 4_194_304})
_SLOW = Stage(latency_ms=500)
_FAILING = Stage(failure_rate=1)

_ALL = (
    Scenario("hello", "/", Stage("hello")),
    Scenario("nginx", _FORWARDED, Stage("nginx"), keys="new"),
    Scenario("plain", _FORWARDED, Stage("plain"), keys="new"),
    Scenario("direct", _FORWARDED, Stage("sandbox"), keys="new"),
    Scenario("miss", _PROFILE, keys="new", head="x-cache: miss"),
    Scenario("shared", _PROFILE, _SHARED, keys="new", head="x-cache: miss"),
    Scenario("hit", _PROFILE, head="x-cache: hit"),
    Scenario("mixed", _PROFILE, keys="mixed"),
    Scenario("replay", _PROFILE, headers=(("idempotency-key", "bench"),), head="x-idempotent-replay: true"),
    Scenario("unauthorized", _PROFILE, with_key=False, statuses=(401,)),
    Scenario("reject", _PROFILE, _REFUSING, statuses=(429,), tolerated=(200,), head="retry-after:"),
    Scenario("collect", "/v1/hackernews/search?query=topic{n}&limit=240", keys="new", head="x-cache: miss"),
    Scenario("slow", _PROFILE, _SLOW, keys="new", busy=1_000, connections=2_000),
    Scenario("failing", _PROFILE, _FAILING, keys="new", statuses=(502, 503)),
    Scenario("overload", _PROFILE, _SHEDDING, keys="new", tolerated=(429, 503), busy=50, shares=(1.0, 2.0)),
    Scenario("soak", _PROFILE, _SMALL_CACHE, keys="mixed", shares=(0.5,), requests=1_000_000),
)
SCENARIOS: Mapping[str, Scenario] = MappingProxyType({row.name: row for row in _ALL})
PEERS = ("hello", "nginx", "plain", "direct")
"""Servers to compare with; they are measured beside the gateway, never for themselves."""
