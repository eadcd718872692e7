"""The response cache: compared with a simple model, and tested rule by rule."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from upstreams.cache.response_cache import Cache, CacheStatistics

OVERHEAD_BYTES = 200
KEYS = st.sampled_from([b"a", b"b" * 100, b"c", b"d", b"e", b"f"])
BODIES = st.builds(bytes, st.sampled_from((0, 1, 50, 300, 798, 799, 800, 2000)))
TTLS = st.sampled_from((-1.0, 0.0, 0.5, 10.0, 1800.0))


def size_of(key: bytes, body: bytes) -> int:
    return len(key) + len(body) + OVERHEAD_BYTES


class CacheMachine(RuleBasedStateMachine):
    """The model, a list of `(key, body, until)`. The least recently used entry is first."""

    @initialize(bytes_max=st.sampled_from((0, 199, 1000, 2500)))
    def open(self, bytes_max: int) -> None:
        self.now = 1000.0
        self.cache = Cache(bytes_max, lambda: self.now)
        self.known: list[tuple[bytes, bytes, float]] = []
        self.hits = self.misses = self.evicted = 0

    @rule(key=KEYS, body=BODIES, ttl_s=TTLS)
    def put(self, key: bytes, body: bytes, ttl_s: float) -> None:
        self.cache.put(key, body, ttl_s)
        self.known = [entry for entry in self.known if entry[0] != key]
        if size_of(key, body) <= self.cache.bytes_max:
            self.known.append((key, body, self.now + ttl_s))
        while self.bytes() > self.cache.bytes_max:
            del self.known[0]
            self.evicted += 1

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        found = next((entry for entry in self.known if entry[0] == key), None)
        if found is not None:
            self.known.remove(found)
        if found is None or found[2] <= self.now:
            assert self.cache.get(key) is None
            self.misses += 1
        else:
            assert self.cache.get(key) == found[1]
            self.known.append(found)
            self.hits += 1

    @rule(key=KEYS)
    def check_holds(self, key: bytes) -> None:
        assert self.cache.holds(key) == any(entry[0] == key and entry[2] > self.now for entry in self.known)

    @rule(for_s=st.sampled_from((0.0, 0.5, 9.5, 10.0, 2000.0)))
    def wait(self, for_s: float) -> None:
        self.now += for_s

    @rule(bytes_max=st.sampled_from((0, 700, 1000, 2500)))
    def reload(self, bytes_max: int) -> None:
        """The cache applies a new limit when it stores the next answer."""
        self.cache.resize(bytes_max)

    @invariant()
    def statistics_match_the_model(self) -> None:
        bound = self.cache.bytes_max
        assert self.cache.statistics() == CacheStatistics(
            len(self.known), self.bytes(), bound, self.hits, self.misses, self.evicted
        )

    def bytes(self) -> int:
        return sum(size_of(key, body) for key, body, _ in self.known)


CacheMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_the_cache_does_what_a_plain_model_of_it_does = CacheMachine.TestCase


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_entry_expires_after_its_ttl() -> None:
    clock = Clock()
    cache = Cache(10_000, clock)
    cache.put(b"k", b"body", 120.0)
    clock.now = 119.999
    assert (cache.get(b"k"), cache.holds(b"k")) == (b"body", True)
    clock.now = 120.0
    assert (cache.holds(b"k"), cache.get(b"k")) == (False, None)
    assert cache.statistics().bytes == 0


def test_hit_returns_the_stored_bytes() -> None:
    cache = Cache(10_000, Clock())
    body = b"encoded once"
    cache.put(b"k", body, 1.0)
    assert cache.get(b"k") is body


def test_least_recently_used_is_evicted_and_holds_does_not_count_as_use() -> None:
    cache = Cache(3 * size_of(b"k", b"body"), Clock())
    for key in (b"1", b"2", b"3"):
        cache.put(key, b"body", 60.0)
    cache.get(b"1")
    cache.holds(b"2")
    cache.put(b"4", b"body", 60.0)
    assert [cache.holds(key) for key in (b"1", b"2", b"3", b"4")] == [True, False, True, True]


def test_oversized_entry_evicts_nothing_but_its_own_key() -> None:
    cache = Cache(1000, Clock())
    cache.put(b"k", b"old", 60.0)
    cache.put(b"other", b"kept", 60.0)
    cache.put(b"k", bytes(1000), 60.0)
    assert (cache.get(b"k"), cache.get(b"other")) == (None, b"kept")
    assert cache.statistics().evicted_total == 0
