"""An operator's change applies to the next request."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.fakes.calling import Answered
from tests.processes.commands import Commands
from tests.processes.place import Place, Served

BILLED = "/v1/github/profile?handle=octocat"
FREE = "/v1/utility/endpoints"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Place:
    """A place for all tests in this file."""
    place = Place(tmp_path_factory.mktemp("next"), commands)
    place.configure()
    return place


@pytest.fixture(scope="module")
def node(shared: Place) -> Iterator[Served]:
    """A node for all tests in this file."""
    with shared.serve("--sandbox") as node:
        yield node


def ask(node: Served, key: str) -> Answered:
    """Send a request that costs one credit if it succeeds."""
    return node.get(BILLED, key, **{"cache-control": "no-cache"})


def test_revoked_key_is_rejected(shared: Place, node: Served) -> None:
    _, key = shared.new_key()
    assert ask(node, key["key"]).status == 200
    shared.json_of("key", "revoke", key["id"])
    assert ask(node, key["key"]).code == "INVALID_API_KEY"


def test_keys_of_suspended_account_are_rejected_until_resumed(shared: Place, node: Served) -> None:
    account, key = shared.new_key()
    assert ask(node, key["key"]).status == 200
    suspended = shared.json_of("account", "suspend", account)
    assert (suspended["id"], suspended["state"], suspended["balance"]) == (account, "suspended", 99)
    for path in (BILLED, FREE):
        refused = node.get(path, key["key"])
        assert (refused.status, refused.code) == (401, "INVALID_API_KEY")
        assert refused.json["error"]["details"]["reason"] == "account_suspended"
    assert shared.json_of("account", "show", account)["state"] == "suspended"
    assert shared.json_of("account", "resume", account)["state"] == "active"
    assert ask(node, key["key"]).json["credits_remaining"] == 98


def test_account_is_deleted_after_confirmation_and_keys_are_unknown(shared: Place, node: Served) -> None:
    account, key = shared.new_key()
    assert ask(node, key["key"]).status == 200
    asked = shared.run("account", "delete", account)
    assert asked.exit_code != 0
    assert "99 credits" in asked.err
    assert ask(node, key["key"]).status == 200
    deleted = shared.json_of("account", "delete", account, "--yes", "--operation-id", "op_deleted")
    assert deleted == {"id": account, "name": "", "state": "deleted", "balance": 98}
    refused = ask(node, key["key"])
    assert (refused.status, refused.code) == (401, "INVALID_API_KEY")
    assert "details" not in refused.json["error"]
    assert shared.json_of("account", "delete", account, "--yes", "--operation-id", "op_deleted") == deleted
    for command in (("account", "resume", account), ("credits", "grant", account, "5")):
        assert shared.operate(*command).refused(1) == f"account {account} was deleted"
    amounts = [line["amount"] for line in shared.json_of("account", "transactions", account)]
    assert sum(amounts) == 98
    assert shared.json_of("ledger", "verify")["ok"]


def test_credit_limit_stops_key_until_raised_reset_or_removed(shared: Place, node: Served) -> None:
    _, key = shared.new_key()
    assert ask(node, key["key"]).status == 200
    assert shared.json_of("key", "update", key["id"], "--credit-limit", "1")["used"] == 1
    refused = ask(node, key["key"])
    assert (refused.status, refused.code) == (402, "KEY_BUDGET_EXCEEDED")
    assert refused.json["credits_remaining"] == 99
    assert shared.json_of("key", "update", key["id"], "--reset-usage")["used"] == 0
    assert ask(node, key["key"]).status == 200
    assert ask(node, key["key"]).code == "KEY_BUDGET_EXCEEDED"
    shared.json_of("key", "update", key["id"], "--credit-limit", "2")
    assert ask(node, key["key"]).status == 200
    shared.json_of("key", "update", key["id"], "--credit-limit", "none")
    assert ask(node, key["key"]).json["credits_remaining"] == 96


def test_granted_credits_are_usable_immediately(shared: Place, node: Served) -> None:
    account, key = shared.new_key(balance=0)
    refused = ask(node, key["key"])
    assert (refused.status, refused.code) == (402, "INSUFFICIENT_CREDITS")
    shared.json_of("credits", "grant", account, "3")
    assert ask(node, key["key"]).json["credits_remaining"] == 2


def test_key_works_until_it_expires(shared: Place, node: Served) -> None:
    account = shared.json_of("account", "create", "--name", "expiring")["id"]
    expires_at = time.time() + 2.5
    text = datetime.fromtimestamp(expires_at, UTC).isoformat()
    key = shared.json_of("key", "create", "--account", account, "--expires-at", text)["key"]
    assert node.get(FREE, key).status == 200
    time.sleep(max(0.0, expires_at - time.time()) + 0.01)
    assert node.get(FREE, key).code == "INVALID_API_KEY"


def test_offline_changes_apply_when_a_node_starts(place: Place) -> None:
    account, kept = place.new_key(balance=1)
    revoked = place.json_of("key", "create", "--account", account)
    place.json_of("key", "revoke", revoked["id"])
    place.json_of("credits", "grant", account, "4")
    with place.serve("--sandbox") as node:
        assert ask(node, kept["key"]).json["credits_remaining"] == 4
        assert ask(node, revoked["key"]).code == "INVALID_API_KEY"
        assert node.stop() == 0
    assert place.json_of("account", "list")[0]["balance"] == 4
