"""Accounts, credits, keys and the ledger: the same output and exit codes with and without a running node."""

import re
from contextlib import ExitStack

import pytest

from billing.ledger.rules import CHAINED, CONSERVED
from tests.fakes.outsider import open_outsider
from tests.processes.place import Place

KEY_RECORD = {
    "id", "account_id", "name", "last4", "credit_limit", "used", "expires_at", "revoked_at", "created_at",
}  # fmt: skip
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_account_is_created_credited_and_listed(shared: Place) -> None:
    made = shared.json_of("account", "create", "--name", "Ada & co", "--credits", "500", "--plan", "pro")
    assert re.fullmatch(r"acc_\w+", made["id"])
    assert made == {"id": made["id"], "name": "Ada & co", "plan": "pro", "balance": 500}
    assert shared.json_of("credits", "grant", made["id"], "250") == {"account": made["id"], "balance": 750}
    (listed,) = [each for each in shared.json_of("account", "list") if each["id"] == made["id"]]
    assert INSTANT.fullmatch(listed.pop("created_at"))
    assert listed == {
        **made,
        "balance": 750,
        "held": 0,
        "unlimited": False,
        "state": "active",
        "mark": None,
        "mismatch": None,
    }


def test_account_mark_is_cleared_and_printed(shared: Place) -> None:
    account, _ = shared.new_key()
    with open_outsider(shared.store_url) as other:
        other.run("UPDATE accounts SET mark = 'dispute' WHERE id = ?", account)
    assert shared.json_of("account", "show", account)["mark"] == "dispute"
    assert shared.json_of("account", "unmark", account) == {"account": account, "removed": "dispute", "mismatch": None}
    assert shared.json_of("account", "unmark", account) == {"account": account, "removed": None, "mismatch": None}
    assert shared.json_of("account", "show", account)["mark"] is None


def test_key_is_shown_once_then_limited_reset_and_revoked(shared: Place) -> None:
    account, made = shared.new_key()
    assert made == {"id": made["id"], "key": made["key"], "last4": made["key"][-4:]}
    assert re.fullmatch(r"key_\w+", made["id"])
    assert re.fullmatch(r"sl_[A-Za-z0-9_-]{43}", made["key"])
    listed = shared.operate("key", "list", "--account", account, "--json")
    assert made["key"] not in listed.out
    (record,) = listed.json
    assert record.keys() == KEY_RECORD
    assert INSTANT.fullmatch(record["created_at"])
    limited = shared.json_of("key", "update", made["id"], "--credit-limit", "5")
    assert limited == {**record, "credit_limit": 5}
    assert shared.json_of("key", "update", made["id"], "--credit-limit", "none", "--reset-usage") == record
    revoked = shared.json_of("key", "revoke", made["id"])
    assert INSTANT.fullmatch(revoked["revoked_at"])
    assert revoked == {**record, "revoked_at": revoked["revoked_at"]}


def test_key_has_the_terms_of_its_creation(shared: Place) -> None:
    account = shared.json_of("account", "create", "--name", "terms")["id"]
    terms = ("--name", "nightly", "--credit-limit", "0", "--expires-at", "2031-01-31T13:00:00+01:00")
    made = shared.json_of("key", "create", "--account", account, *terms)
    (record,) = shared.json_of("key", "list", "--account", account)
    assert (record["id"], record["name"], record["credit_limit"]) == (made["id"], "nightly", 0)
    assert record["expires_at"] == "2031-01-31T12:00:00.000Z"


def test_result_without_json_is_a_readable_line(shared: Place) -> None:
    ended = shared.operate("account", "create", "--name", "people")
    assert (ended.exit_code, ended.err) == (0, "")
    assert re.fullmatch(r"id=acc_\w+  name=people  plan=free  balance=100\n", ended.out)


REFUSED = [
    (("credits", "grant", "acc_none", "5"), "account acc_none does not exist"),
    (("key", "create", "--account", "acc_none"), "account acc_none does not exist"),
    (("key", "revoke", "key_none"), "key key_none does not exist"),
    (("key", "update", "key_none", "--reset-usage"), "key key_none does not exist"),
    (("key", "list", "--account", "acc_none"), "account acc_none does not exist"),
    (("account", "create", "--name", "  "), "an account needs a name"),
    (("account", "create", "--name", "two\nlines"), "a name has at most 200 characters and no line breaks"),
    (("account", "create", "--name", "x" * 201), "a name has at most 200 characters"),
    (("key", "create", "--account", "acc_none", "--name", "a\tb"), "a name has at most 200 characters"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED, ids=[ascii(" ".join(row[0]))[:60] for row in REFUSED])
def test_failed_operation_is_reported_in_one_line(shared: Place, arguments: tuple[str, ...], why: str) -> None:
    assert why in shared.operate(*arguments).refused(1)


def test_tampering_is_reported_violation_by_violation(shared: Place) -> None:
    account, _ = shared.new_key()
    tamper(shared, "UPDATE accounts SET balance = balance + 7 WHERE id = ?", account)
    result = shared.operate("ledger", "verify", "--json")
    assert result.exit_code == 1
    assert result.json["ok"] is False
    violations = result.json["violations"]
    assert {"rule", "subject", "detail"} == violations[0].keys()
    assert {each["subject"] for each in violations} == {account}
    assert {each["rule"] for each in violations} == {CONSERVED, CHAINED}
    said = shared.operate("ledger", "verify")
    assert (said.exit_code, said.out) == (1, "")
    assert said.err.count("\n") == len(violations)
    assert f"{account}: 107 are available, 0 held and 0 spent, of 100 received" in said.err
    tamper(shared, "UPDATE accounts SET balance = balance - 7 WHERE id = ?", account)
    assert shared.operate("ledger", "verify").out == "the ledger is consistent\n"


def tamper(place: Place, sql: str, *params: object) -> None:
    with open_outsider(place.store_url) as other:
        other.run(sql, *params)


def test_concurrent_commands_wait_for_each_other(place: Place) -> None:
    command = ("account", "create", "--config", str(place.config), "--name", "one of many")
    errors = [place.folder / f"err{number}" for number in range(4)]
    with ExitStack() as running:
        started = [
            running.enter_context(place.commands.start(command, folder=place.folder, environ={}, err=err))
            for err in errors
        ]
        assert [each.wait() for each in started] == [0] * 4
    assert [err.read_bytes() for err in errors] == [b""] * 4
    assert len(place.json_of("account", "list")) == 4


def test_store_size_is_listed_by_table(shared: Place) -> None:
    shared.new_key()
    found = shared.json_of("store", "size")
    sizes = {table["name"]: table for table in found["tables"]}
    assert {"accounts", "keys", "events", "runs", "deliveries", "claims"} <= sizes.keys()
    assert all(table["bytes"] + table["index_bytes"] > 0 for table in sizes.values())
    assert found["bytes"] > 0
    assert [found[name] for name in ("growth_bytes_a_day", "bytes_per_thousand_calls", "days_until_full")] == [None] * 3
    said = shared.operate("store", "size")
    assert (said.exit_code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].split() == ["table", "rows", "bytes", "indexes", "per", "row"]
    assert {line.split()[0] for line in lines[1 : lines.index("")]} == sizes.keys()
    assert lines[-2] == "growth: unknown until a node has run for over an hour"
    assert lines[-1].startswith("disk: ")
    assert (found["disk"] is None) == ("belongs to the database server" in lines[-1])


def test_key_is_revealed_after_confirmation(shared: Place) -> None:
    _, made = shared.new_key()
    assert shared.json_of("key", "reveal", made["id"], "--yes") == {"id": made["id"], "key": made["key"]}
    asked = shared.run("key", "reveal", made["id"])
    assert (asked.exit_code, asked.out) == (1, "")
    assert asked.err.endswith("sluice: not confirmed; nothing was done. Use --yes to skip the question\n")
    assert made["key"] not in asked.err


def test_key_with_past_expiry_is_rejected(shared: Place) -> None:
    account, _ = shared.new_key()
    refused = shared.operate("key", "create", "--account", account, "--expires-at", "2020-01-31T12:00:00Z").refused(1)
    assert refused == "expires_at 2020-01-31T12:00:00Z is in the past"


def test_account_is_shown_and_its_plan_changed(shared: Place) -> None:
    made = shared.json_of("account", "create", "--name", "shown", "--credits", "7")
    assert shared.json_of("account", "plan", made["id"], "growth") == {**made, "plan": "growth"}
    shown = shared.json_of("account", "show", made["id"])
    assert {name: shown[name] for name in made} == {**made, "plan": "growth"}
    assert (shown["held"], shown["spent_last_24h"], shown["spent_last_7d"]) == (0, 0, 0)
    assert shared.operate("account", "show", "acc_none").refused(1) == "account acc_none does not exist"


def test_transactions_are_listed_newest_first(shared: Place) -> None:
    account = shared.json_of("account", "create", "--name", "traded", "--credits", "7")["id"]
    for amount in (1, 2, 3):
        shared.json_of("credits", "grant", account, str(amount))
    listed = shared.json_of("account", "transactions", account)
    assert [(line["type"], line["amount"], line["balance_after"]) for line in listed] == [
        ("purchase", 3, 13),
        ("purchase", 2, 10),
        ("purchase", 1, 8),
        ("bonus", 7, 7),
    ]
    assert shared.operate("account", "transactions", "acc_none").refused(1) == "account acc_none does not exist"
