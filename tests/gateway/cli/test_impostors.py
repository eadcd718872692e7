"""An impostor listens in place of the node: no command reveals a secret to it or trusts it."""

import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from gateway.config.secrets import load_secret
from storage.sqlite.owner import NOTE_BYTES_MAX, own
from tests.fakes.impostor import Answer, Impostor, http, open_impostor, relay_to
from tests.fakes.outsider import open_outsider
from tests.fakes.stores import engine
from tests.processes.place import Place, Served
from tests.servers.ports import free_port

ZEROS = json.dumps({"nonce": "0" * 64, "proof": "0" * 64}).encode()
AGREEING = http(b'{"ok":true,"violations":[],"balance":1,"applied":[],"finished_at":"x","key":"sl_x","nonce":"x"}')
ANSWERS: dict[str, Answer] = {
    "invents a proof": lambda _data, _connection: http(ZEROS),
    "hangs up": lambda _data, _connection: b"",
    "asks for the token": lambda _data, _connection: http(b'{"error":"the admin token is missing or wrong"}', 401),
    "does not speak HTTP": lambda _data, _connection: b"220 smtp.example.com ESMTP\r\n\r\n",
    "sends an endless head": lambda _data, _connection: b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000,
    "promises 5 TB": lambda _data, _connection: b"HTTP/1.1 200 OK\r\ncontent-length: 5000000000000\r\n\r\n",
}


def commands_of(account: str, key: str) -> list[tuple[str, ...]]:
    """Return every command that sends a request to a node."""
    return [
        ("account", "create", "--name", "Mallory", "--credits", "5"),
        ("account", "list"),
        ("credits", "grant", account, "5"),
        ("key", "create", "--account", account),
        ("key", "list"),
        ("key", "update", key, "--reset-usage"),
        ("key", "revoke", key),
        ("ledger", "verify"),
        ("monitor", "run", "mon_none"),
        ("platforms", "isolate", "github"),
        ("platforms", "reset", "github"),
        ("reload",),
    ]


@contextmanager
def impostor_at(place: Place, answer: Answer) -> Iterator[Impostor]:
    """Open an impostor where commands expect this store's node. For a file store, it also writes the owner note."""
    with ExitStack() as stack:
        if engine() == "sqlite":
            ownership = stack.enter_context(own(place.database))
            impostor = stack.enter_context(open_impostor(answer))
            ownership.announce({"admin_url": impostor.url})
        else:
            impostor = stack.enter_context(open_impostor(answer, port=place.admin_port))
        yield impostor


def secrets_of(place: Place) -> list[bytes]:
    """Return the secrets that must not be revealed: the master secret and the token."""
    master = (place.database.parent / "secret").read_bytes().strip()
    return [master, load_secret({}, place.database.parent).admin_token.encode()]


def stored(place: Place) -> list[list[tuple[object, ...]]]:
    """Return the rows that commands could change: keys and balances."""
    with open_outsider(place.store_url) as other:
        return [other.run("SELECT id, balance FROM accounts ORDER BY id"), other.run("SELECT * FROM keys ORDER BY id")]


def test_commands_reveal_nothing_to_an_impostor(place: Place) -> None:
    account, made = place.new_key()
    before = stored(place)
    with impostor_at(place, lambda _data, _connection: AGREEING) as impostor:
        for command in commands_of(account, made["id"]):
            requests = len(impostor.received)
            said = place.operate(*command).refused(1)
            assert said.startswith(f"the listener on 127.0.0.1:{impostor.port} is not this node: "), command
            assert len(impostor.received) > requests, f"{command} sent no request"
        received = impostor.received_bytes
    assert not [secret for secret in secrets_of(place) if secret in received]
    assert b"authorization" not in received.lower()
    assert account.encode() not in received
    assert stored(place) == before


@pytest.mark.parametrize("how", ANSWERS)
def test_impostor_is_detected_whatever_it_responds(place: Place, how: str) -> None:
    account, _ = place.new_key()
    with impostor_at(place, ANSWERS[how]) as impostor:
        said = place.operate("credits", "grant", account, "5").refused(1)
    assert said.startswith(f"the listener on 127.0.0.1:{impostor.port} is not this node: ")
    assert [row for row in stored(place)[0] if row == (account, 100)]


def test_slow_impostor_is_abandoned_in_time(place: Place) -> None:
    account, _ = place.new_key()
    began_at = time.monotonic()
    with impostor_at(place, drip) as impostor:
        said = place.operate("credits", "grant", account, "5").refused(1)
    assert said == f"the running node does not respond at {impostor.url}: no proof within 10 s"
    assert 9 < time.monotonic() - began_at < 50
    assert [row for row in stored(place)[0] if row == (account, 100)]


def drip(_data: bytes, _connection: object) -> Iterator[bytes]:
    """An endless head that arrives one byte every fifth of a second."""
    for byte in itertools.cycle(b"x-padding: yes\r\n"):
        yield bytes([byte])
        time.sleep(0.2)


def test_relay_to_the_real_node_is_detected(place: Place) -> None:
    """Method: the relay writes its URL over the node's note; with a server, it listens at the config's address."""
    account, made = place.new_key()
    with place.serve("--sandbox") as node:
        before = stored(place)
        elsewhere, answer = in_between(place, node)
        with open_impostor(answer, port=elsewhere.admin_port) as relay:
            write_note(place, relay.url)
            for command in commands_of(account, made["id"]):
                said = elsewhere.operate(*command).refused(1)
                assert said.startswith(f"the listener on 127.0.0.1:{relay.port} is not this node: its proof is wrong")
        assert stored(place) == before
    assert not [secret for secret in secrets_of(place) if secret in relay.received_bytes]


def in_between(place: Place, node: Served) -> tuple[Place, Answer]:
    """Yield a place whose commands reach the relay, and the relay's responses."""
    answer = relay_to("127.0.0.1", int(node.admin_url.rpartition(":")[2]))
    if engine() == "sqlite":
        return place, answer
    elsewhere = replace(place, admin_port=free_port())
    elsewhere.configure()
    return elsewhere, answer


def write_note(place: Place, url: str) -> None:
    if engine() == "sqlite":
        file = os.open(place.database.with_name("sluice.db.lock"), os.O_RDWR)
        os.pwrite(file, json.dumps({"admin_url": url}).encode().ljust(NOTE_BYTES_MAX), 0)
        os.close(file)
