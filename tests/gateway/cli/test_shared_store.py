"""Commands on a store shared by several nodes use the node at the config's admin address.

If none responds, they change the database directly, which applies to every node's next request.
In the first tests, the responding node has another store, because the commands never check it.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from tests.processes.commands import Commands
from tests.processes.place import Place, Served
from tests.servers.ports import free_port
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

SHARED = {"url": "postgresql://127.0.0.1:1/none"}
SECRET = {"SLUICE_SECRET": "the same on every machine: hTFNqgVxiW8b3kzR"}
BILLED = "/v1/github/profile?handle=octocat"


def test_commands_use_the_node_at_the_admin_address(place: Place, tmp_path: Path, commands: Commands) -> None:
    place = replace(place, environ=SECRET)
    desk = Place(tmp_path / "desk", commands, SECRET)
    desk.folder.mkdir()
    with place.serve() as node:
        desk.configure(admin={"port": urlsplit(node.admin_url).port}, store=SHARED)
        made = desk.json_of("account", "create", "--name", "elsewhere")
        assert [account["id"] for account in place.json_of("account", "list")] == [made["id"]]
        assert desk.json_of("reload") == {"applied": [], "needs_restart": []}
        assert desk.json_of("platforms", "isolate", "github")["platform"] == "github"


def test_node_only_operation_is_rejected_without_a_node(place: Place) -> None:
    place.configure(admin={"port": free_port()}, store=SHARED)
    assert place.operate("reload").refused(1) == "no node is running on this store"


def test_unavailable_database_is_reported_in_one_line(place: Place) -> None:
    place.configure(admin={"port": free_port()}, store=SHARED)
    assert place.operate("account", "list").refused(1).startswith("cannot open the database: ")


def test_every_command_works_directly_on_the_database(place: Place, postgres: PostgresServer) -> None:
    place = replace(place, environ=SECRET)
    place.configure(admin={"port": free_port()}, store={"url": postgres.fresh()})
    account, key = place.new_key(balance=7)
    assert place.json_of("credits", "grant", account, "3") == {"account": account, "balance": 10}
    assert place.json_of("key", "update", key["id"], "--credit-limit", "5")["credit_limit"] == 5
    assert place.json_of("key", "revoke", key["id"])["revoked_at"] is not None
    assert [record["id"] for record in place.json_of("key", "list", "--account", account)] == [key["id"]]
    assert [record["balance"] for record in place.json_of("account", "list")] == [10]
    assert place.json_of("ledger", "verify") == {"ok": True, "violations": []}


def test_second_node_does_not_start_with_memory_state(place: Place, postgres: PostgresServer) -> None:
    place = replace(place, environ=SECRET)
    place.configure(admin={"port": 0}, store={"url": postgres.fresh()})
    with place.serve() as node:
        ended = place.operate("serve")
        assert (ended.exit_code, ended.out) == (1, "")
        waits, refusal = ended.err.splitlines()
        assert orjson.loads(waits)["event"] == "waits_for_death"
        assert refusal.startswith("sluice: another node (node_")
        assert refusal.endswith("give all nodes the same Redis, or stop the other")
        assert node.get("/v1/status").status == 200


@pytest.fixture
def elsewhere(place: Place, postgres: PostgresServer, empty_redis: RedisServer) -> Iterator[tuple[Place, Served]]:
    """A place without a node, and another node that shares its database and state."""
    place = replace(place, environ=SECRET)
    shared = {"store": {"url": postgres.fresh()}, "state": {"url": empty_redis.url}}
    place.configure(**shared)
    with place.serve("--sandbox") as node:
        place.configure(admin={"port": free_port()}, **shared)
        yield place, node


def test_direct_change_applies_to_the_next_request_of_a_node(elsewhere: tuple[Place, Served]) -> None:
    desk, node = elsewhere
    account, key = desk.new_key(balance=2)
    assert node.get(BILLED, key["key"]).status == 200
    desk.json_of("key", "update", key["id"], "--credit-limit", "0")
    refused = node.get(BILLED, key["key"], **{"cache-control": "no-cache"})
    assert (refused.status, refused.code) == (402, "KEY_BUDGET_EXCEEDED")
    desk.json_of("key", "update", key["id"], "--credit-limit", "none")
    desk.json_of("credits", "grant", account, "5")
    assert node.get("/v1/credits/balance", key["key"]).json["credits_remaining"] == 6
    desk.json_of("key", "revoke", key["id"])
    refused = node.get(BILLED, key["key"])
    assert (refused.status, refused.code) == (401, "INVALID_API_KEY")


def test_direct_commands_do_not_join_as_nodes_or_end_calls(elsewhere: tuple[Place, Served]) -> None:
    """Goal: a command that opens the store while nodes run refunds nothing of theirs and does not join them."""
    desk, node = elsewhere
    _, key = desk.new_key()
    assert node.get(BILLED, key["key"]).status == 200
    assert desk.json_of("ledger", "verify") == {"ok": True, "violations": []}
    samples = node.admin("/metrics").body.decode().splitlines()
    assert "sluice_nodes_living 1.0" in samples
    assert "sluice_recovered_charges_total 0.0" in samples
