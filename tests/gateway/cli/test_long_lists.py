"""Lists longer than one page: every entry is printed in order, with and without a node."""

import pytest

from tests.fakes.outsider import open_outsider
from tests.processes.place import Place

MANY = 2_500
A_PAGE = 1_000


@pytest.fixture(scope="module")
def full(shared: Place) -> tuple[Place, str]:
    """A place with many accounts, all created at the same time, and one account with many keys."""
    place = shared
    account = place.json_of("account", "create", "--name", "first", "--credits", "0")["id"]
    with open_outsider(place.store_url) as other:
        numbers = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
        other.run(
            "INSERT INTO accounts (id, number, name, plan, unlimited, balance, held, created_at)"
            f" {numbers} SELECT 'acc_' || i, 1 + i, 'n', 'free', 0, 0, 0, 2e9 FROM n"
        )
        other.run(
            "INSERT INTO keys (id, number, account_id, name, hash, sealed, last4, used, created_at, revoked_at)"
            f" {numbers} SELECT 'key_' || i, i, '{account}', 'n', 'h' || i, 's', 'last', 0, 2e9 - i, 2e9 FROM n"
        )
    return place, account


def test_all_accounts_are_listed(full: tuple[Place, str]) -> None:
    place, account = full
    listed = [each["id"] for each in place.json_of("account", "list")]
    assert listed == [account, *sorted(f"acc_{number}" for number in range(1, MANY + 1))]


def test_all_keys_are_listed_as_json_and_lines(full: tuple[Place, str]) -> None:
    place, account = full
    wanted = [f"key_{number}" for number in range(MANY, 0, -1)]
    assert [each["id"] for each in place.json_of("key", "list")] == wanted
    lines = place.operate("key", "list", "--account", account).out.splitlines()
    assert [line.partition("  ")[0] for line in lines] == [f"id={id_}" for id_ in wanted]


def test_list_of_exactly_one_page_and_empty_list_are_complete(full: tuple[Place, str]) -> None:
    place, _ = full
    with open_outsider(place.store_url) as other:
        sql = "INSERT INTO keys (id, number, account_id, name, hash, sealed, last4, used, created_at)"
        other.run(
            f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {A_PAGE})"
            f" {sql} SELECT 'page_' || i, {MANY} + i, 'acc_1', 'n', 'p' || i, 's', 'last', 0, 2e9 + i FROM n"
        )
    try:
        assert len(place.json_of("key", "list", "--account", "acc_1")) == A_PAGE
        ended = place.operate("key", "list", "--account", "acc_2", "--json")
        assert (ended.exit_code, ended.out) == (0, "[]\n")
    finally:
        with open_outsider(place.store_url) as other:
            other.run("DELETE FROM keys WHERE account_id = 'acc_1'")
