"""A change is applied once per operation id, whatever is lost, cut or killed."""

import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from gateway.admin.operation_records import KEPT_S, MIGRATIONS, forget_operations
from gateway.config.secrets import load_secret
from storage.opening import open_store
from storage.store import Tx
from tests.fakes.impostor import losing, open_impostor
from tests.fakes.outsider import open_outsider
from tests.fakes.stores import engine
from tests.processes.commands import Commands
from tests.processes.place import Place
from tests.processes.started import Started
from tests.servers.cutter import Cutter, open_cutter
from tests.servers.postgres import PostgresServer

ID = "--operation-id"
MOMENTS_S = (0.0, 0.02, 0.04, 0.07, 0.1, 0.15)
"""When to kill the command, in seconds after its first byte: before, during and after its work."""


def balance_of(place: Place, account: str) -> int:
    """Return the balance in the store."""
    with open_outsider(place.store_url) as other:
        return int(other.run("SELECT balance FROM accounts WHERE id = ?", account)[0][0])


def keys_of(place: Place, account: str) -> list[str]:
    """Return the ids of an account's keys in the store."""
    with open_outsider(place.store_url) as other:
        return [id_ for (id_,) in other.run("SELECT id FROM keys WHERE account_id = ?", account)]


def test_credits_are_granted_once_and_repeat_returns_result(shared: Place) -> None:
    account, _ = shared.new_key()
    grant = ("credits", "grant", account, "5")
    first = shared.json_of(*grant, ID, "op_granted")
    assert first == {"account": account, "balance": 105}
    shared.json_of("credits", "grant", account, "1")
    assert shared.json_of(*grant, ID, "op_granted") == first
    assert balance_of(shared, account) == 106


def test_operation_id_is_bound_to_operation_and_arguments(shared: Place) -> None:
    account, _ = shared.new_key()
    shared.json_of("credits", "grant", account, "5", ID, "op_one_thing")
    for other in (("credits", "grant", account, "6"), ("key", "create", "--account", account)):
        said = shared.operate(*other, ID, "op_one_thing").refused(1)
        assert said == "the operation id op_one_thing was used for another operation"
    assert balance_of(shared, account) == 105


def test_key_is_created_once_and_repeat_shows_it(shared: Place) -> None:
    account = shared.json_of("account", "create", "--name", "once", ID, "op_account")["id"]
    create = ("key", "create", "--account", account, ID, "op_created")
    made = shared.json_of(*create)
    assert shared.json_of(*create) == made
    assert keys_of(shared, account) == [made["id"]]
    with open_outsider(shared.store_url) as other:
        kept = [str(row) for row in other.run("SELECT * FROM operations")]
    assert not [row for row in kept if made["key"] in row]
    assert shared.json_of("account", "create", "--name", "once", ID, "op_account")["id"] == account


def test_usage_is_reset_once(shared: Place) -> None:
    _, made = shared.new_key()
    reset = ("key", "update", made["id"], "--reset-usage", ID, "op_reset_usage")
    shared.json_of(*reset)
    with open_outsider(shared.store_url) as other:
        other.run("UPDATE keys SET used = 7 WHERE id = ?", made["id"])
    assert shared.json_of(*reset)["used"] == 0  # the stored result
    (record,) = [each for each in shared.json_of("key", "list") if each["id"] == made["id"]]
    assert record["used"] == 7


def test_rejected_operation_can_be_retried_under_same_id(shared: Place) -> None:
    account = shared.json_of("account", "create", "--name", "five")["id"]
    keys = [shared.json_of("key", "create", "--account", account)["id"] for _ in range(5)]
    create = ("key", "create", "--account", account, ID, "op_the_sixth")
    assert "5 active keys" in shared.operate(*create).refused(1)
    shared.json_of("key", "revoke", keys[0], ID, "op_revoked")
    made = shared.json_of(*create)
    assert keys_of(shared, account).count(made["id"]) == 1


@pytest.mark.parametrize("wrong", ["short", "x" * 65, "two words", "é" * 9, "a\nbcdefgh"])
def test_invalid_operation_id_is_rejected(shared: Place, wrong: str) -> None:
    refused = shared.operate("account", "create", "--name", "x", ID, wrong).refused(2)
    assert refused == "Invalid value for '--operation-id': must be 8 to 64 characters of A-Z, a-z, 0-9, _ and -"


async def test_operation_records_are_kept_for_30_days(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/store.db", [MIGRATIONS]) as store:
        for age_s in (KEPT_S + 1, KEPT_S - 1):
            await store.write(partial(add_record, at=1e9 - age_s))
        assert await store.write(lambda tx: forget_operations(tx, 1e9)) == 1
        assert await store.read(lambda tx: tx.all("SELECT at FROM operations")) == [(1e9 - KEPT_S + 1,)]


def add_record(tx: Tx, at: float) -> None:
    tx.run("INSERT INTO operations VALUES (?, ?, ?, ?)", (f"op_{at}", "f", "{}", at))


@pytest.mark.parametrize("answers", [2, 3])
def test_request_is_repeated_after_a_lost_response(place: Place, answers: int) -> None:
    account, _ = place.new_key()
    with place.serve("--sandbox") as node, open_impostor(losing(token_of(place), node.admin_url, answers)) as lossy:
        point_to(place, lossy.port)
        assert place.json_of("credits", "grant", account, "5") == {"account": account, "balance": 105}
    assert balance_of(place, account) == 105


def test_giving_up_explains_how_to_repeat_safely(place: Place) -> None:
    account = place.json_of("account", "create", "--name", "lost")["id"]
    with place.serve("--sandbox") as node, open_impostor(losing(token_of(place), node.admin_url, 100)) as lossy:
        point_to(place, lossy.port)
        said = place.operate("key", "create", "--account", account).refused(1)
        assert said.startswith(
            f"the running node does not respond at {lossy.url}: its response is incomplete; it may have "
        )
        operation_id = said.partition(f"repeat it with {ID} ")[2].partition(" ")[0]
        read = place.operate("account", "list").refused(1)
        assert read.endswith("; it is safe to repeat")
    point_to(place, place.admin_port)
    made = place.json_of("key", "create", "--account", account, ID, operation_id)
    assert keys_of(place, account) == [made["id"]]
    assert made["key"].endswith(made["last4"])


def token_of(place: Place) -> str:
    return load_secret({}, place.database.parent).admin_token


def point_to(place: Place, port: int) -> None:
    """Make commands use this admin port."""
    if engine() != "sqlite":
        place.configure(admin={"port": port})
        return
    note = place.database.with_name("sluice.db.lock")
    file = os.open(note, os.O_RDWR)
    os.pwrite(file, b'{"admin_url":"http://127.0.0.1:%d"}'.ljust(4096) % port, 0)
    os.close(file)


def begin(place: Place, *command: str) -> Started:
    """Start a command, and return when it runs."""
    arguments = (*command, "--config", str(place.config))
    environ = {"PATH": os.environ["PATH"]}
    return place.commands.start(arguments, folder=place.folder, environ=environ, err=place.folder / "begun")


@pytest.mark.parametrize("command", [("credits", "grant", "ACCOUNT", "5"), ("key", "create", "--account", "ACCOUNT")])
def test_killed_and_repeated_command_applies_once(place: Place, command: tuple[str, ...]) -> None:
    """Method: kill -9 at many moments without a node, then repeat with the same id."""
    for moment, after_s in enumerate(MOMENTS_S):
        account = place.json_of("account", "create", "--name", "killed", "--credits", "100")["id"]
        whole = [account if word == "ACCOUNT" else word for word in command]
        with begin(place, *whole, ID, f"op_killed_{moment}") as begun:
            time.sleep(after_s)
            begun.kill()
        place.json_of(*whole, ID, f"op_killed_{moment}")
        assert (balance_of(place, account), len(keys_of(place, account))) in ((105, 0), (100, 1))
    assert place.json_of("ledger", "verify")["ok"]


def test_node_killed_during_command_applies_once(place: Place) -> None:
    """Method: kill -9 of the node at many moments. The command retries, or says how to repeat it."""
    account = place.json_of("account", "create", "--name", "killed", "--credits", "100")["id"]
    for moment, after_s in enumerate(MOMENTS_S):
        grant = ("credits", "grant", account, "5", ID, f"op_under_{moment}")
        with place.serve("--sandbox") as node, begin(place, *grant) as begun:
            time.sleep(after_s)
            node.popen.kill()
            node.wait()
            begun.wait(60)
        place.bury()
        place.json_of(*grant)
        assert balance_of(place, account) == 100 + 5 * (moment + 1)
    assert place.json_of("ledger", "verify")["ok"]


@pytest.mark.parametrize("arrives", [True, False])
def test_commit_with_lost_response_applies_once(
    tmp_path: Path, commands: Commands, postgres: PostgresServer, arrives: bool
) -> None:
    """Method: on PostgreSQL, cut the connection at the command's commit, before or after the server gets it."""
    postgres.fresh()
    place = Place(tmp_path, commands)
    place.configure(store={"url": postgres.url()})
    account = place.json_of("account", "create", "--name", "cut", "--credits", "100")["id"]
    with open_cutter(postgres.port) as cutter:
        place.configure(store={"url": postgres.url(cutter.port)})
        cut = cut_at_commit(cutter, arrives=arrives)
        ended = place.operate("credits", "grant", account, "5", ID, "op_commit", "--json")
        place.configure(store={"url": postgres.url()})
        assert place.json_of("credits", "grant", account, "5", ID, "op_commit") == {"account": account, "balance": 105}
    assert cut.is_set()
    assert ended.exit_code == 0, "the command did not repeat the operation"
    assert all(line.startswith("the link to PostgreSQL is ") for line in ended.err.splitlines())
    assert ended.json["balance"] == 105
    assert [each["balance"] for each in place.json_of("account", "list")] == [105]


def cut_at_commit(cutter: Cutter, *, arrives: bool) -> threading.Event:
    """Cut every connection at the first commit, set the event, and work normally afterwards."""
    cut = threading.Event()

    def to_server(data: bytes) -> bool:
        if b"COMMIT" not in data or cut.is_set():
            return True
        cut.set()
        if arrives:
            cutter.to_client = to_client
            return True
        cutter.cut()
        return False

    def to_client(_data: bytes) -> bool:
        cutter.to_client = lambda _data: True
        cutter.cut()
        return False

    cutter.to_server = to_server
    return cut
