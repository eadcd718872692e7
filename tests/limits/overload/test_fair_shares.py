"""Fair shares: which keys had less than an equal part of the recently admitted requests."""

from limits.overload.fair_shares import KEYS_MAX, WINDOW_S, FairShares


def shares(*known: bytes) -> FairShares:
    return FairShares(frozenset(known).__contains__)


def admit(each: FairShares, key: bytes | None, count: int) -> None:
    for _ in range(count):
        each.admit(each.of(key))


def test_key_is_below_its_share_while_it_has_less_than_an_equal_part() -> None:
    two = shares(b"a", b"b")
    admit(two, b"a", 10)
    assert two.is_below(two.of(b"b"))
    assert not two.is_below(two.of(b"a"))
    admit(two, b"b", 10)
    assert not two.is_below(two.of(b"b"))


def test_unknown_keys_share_one_part_under_any_name() -> None:
    some = shares(b"a")
    admit(some, b"a", 10)
    for n in range(11):
        admit(some, b"%d" % n, 1)
    assert not some.is_below(some.of(b"another"))
    assert not some.is_below(some.of(None))
    assert some.is_below(some.of(b"a"))
    assert len(some) == 2


def test_admitted_requests_are_forgotten_as_the_window_slides() -> None:
    two = shares(b"a", b"b")
    admit(two, b"a", 10)
    two.turn(WINDOW_S)
    admit(two, b"b", 8)
    assert not two.is_below(two.of(b"a")), "the previous window counts fully when the next one begins"
    two.turn(1.5 * WINDOW_S)
    assert two.is_below(two.of(b"a"))
    two.turn(2 * WINDOW_S)
    two.turn(3 * WINDOW_S)
    assert len(two) == 0


def test_revoked_key_counts_as_unknown_in_the_next_window() -> None:
    known = {b"a", b"b"}
    two = FairShares(known.__contains__)
    admit(two, b"a", 1)
    admit(two, b"b", 50)
    known.discard(b"a")
    two.turn(WINDOW_S)
    assert two.of(b"a") is two.of(None)


def test_number_of_keys_with_a_share_is_bounded() -> None:
    many = FairShares(lambda _key: True)
    for n in range(KEYS_MAX + 100):
        many.of(b"%d" % n)
    assert len(many) == KEYS_MAX + 1
    assert many.of(b"one more") is many.of(None)
