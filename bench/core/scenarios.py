"""The scenarios, as a table with one row each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bench.core.settings import Setting

TRANSPARENT: Mapping[str, Setting] = MappingProxyType(
    {"limits.requests_per_minute": 2_000_000, "limits.concurrent_requests": 10_000, "server.shed": False}
)
"""Limits that no request reaches, so that no request is refused.

The window of one key then takes up 16 MB (8 bytes per request), which is part of the resident memory.
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """The server that a scenario needs, its settings, and the behavior of the sandbox upstream.

    `settings` contains dotted keys of config.toml. They apply only to the servers `gateway` and `shared`.
    """

    server: str = "gateway"
    settings: Mapping[str, Setting] = field(default_factory=lambda: TRANSPARENT)
    latency_ms: float = 0.0
    failure_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of request to one server, and the expected responses."""

    name: str
    path: str
    """The request target; `{n}` is replaced with the request's key."""
    stage: Stage = Stage()
    keys: str = "one"
    headers: tuple[tuple[str, str], ...] = ()
    with_key: bool = True
    statuses: tuple[int, ...] = (200,)
    """Statuses that count as served."""
    tolerated: tuple[int, ...] = ()
    """Statuses of allowed refusals. Refusals are counted separately, and latencies do not include them."""
    head: str = ""
    """Lower-case text that the head of every served response must contain, except the first one."""
    busy: int = 64
    """The number of connections of the closed loop that measures the server's capacity."""
    connections: int = 1_000
    """The maximum number of connections of the open loop. More requests wait, and the wait is part of their latency."""
    shares: tuple[float, ...] = (0.2, 0.5, 0.8, 1.0)
    """Offered rates as shares of the closed loop's capacity."""
    requests: int | None = None
    """If set, the number of requests to count, in place of a number of seconds."""


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
"""Servers to compare with. They are measured only together with the gateway."""
