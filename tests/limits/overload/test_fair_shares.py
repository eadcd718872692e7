"""Fair shares: who has had less than an equal part of what was admitted lately."""

from limits.overload.fair_shares import KEYS_MAX, WINDOW_S, FairShares


def shares(*known: bytes) -> FairShares:
    return FairShares(frozenset(known).__contains__)


def admit(each: FairShares, key: bytes | None, count: int) -> None:
    for _ in range(count):
        each.admit(each.of(key))


def test_a_key_is_below_while_it_has_had_less_than_an_equal_part() -> None:
    two = shares(b"a", b"b")
    admit(two, b"a", 10)
    assert two.is_below(two.of(b"b"))
    assert not two.is_below(two.of(b"a"))
    admit(two, b"b", 10)
    assert not two.is_below(two.of(b"b"))


def test_strangers_share_one_part_whatever_they_call_themselves() -> None:
    some = shares(b"a")
    admit(some, b"a", 10)
    for n in range(11):
        admit(some, b"%d" % n, 1)
    assert not some.is_below(some.of(b"another"))
    assert not some.is_below(some.of(None))
    assert some.is_below(some.of(b"a"))
    assert len(some) == 2


def test_what_was_admitted_is_forgotten_as_the_window_slides() -> None:
    two = shares(b"a", b"b")
    admit(two, b"a", 10)
    two.turn(WINDOW_S)
    admit(two, b"b", 8)
    assert not two.is_below(two.of(b"a")), "the window before counts whole as the next one begins"
    two.turn(1.5 * WINDOW_S)
    assert two.is_below(two.of(b"a"))
    two.turn(2 * WINDOW_S)
    two.turn(3 * WINDOW_S)
    assert len(two) == 0


def test_a_key_that_is_good_no_longer_becomes_a_stranger_with_the_next_window() -> None:
    known = {b"a", b"b"}
    two = FairShares(known.__contains__)
    admit(two, b"a", 1)
    admit(two, b"b", 50)
    known.discard(b"a")
    two.turn(WINDOW_S)
    assert two.of(b"a") is two.of(None)


def test_so_many_keys_have_a_share_of_their_own_and_no_more_are_remembered() -> None:
    many = FairShares(lambda _key: True)
    for n in range(KEYS_MAX + 100):
        many.of(b"%d" % n)
    assert len(many) == KEYS_MAX + 1
    assert many.of(b"one more") is many.of(None)
