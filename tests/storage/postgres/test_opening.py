"""Valid and refused PostgreSQL addresses, and the error messages."""

import pytest
import trio

from storage.errors import StoreUnusable
from storage.opening import is_shared, open_store, read_owner_note
from tests.servers.ports import free_port
from tests.servers.postgres import PostgresServer
from tests.storage.tables import NOTES, add_note, all_texts


async def refusal(address: str) -> str:
    with pytest.raises(StoreUnusable) as caught, trio.fail_after(20):
        async with open_store(address, [NOTES]):
            pass
    return str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://",
        "postgresql://user:secret@host",
        "postgresql://user:secret@[host/db",
        "postgresql://user:secret@host/db?nonsense=1",
        "postgresql:/user:secret@host/db",
        "mysql://user:secret@host/db",
    ],
)
async def test_invalid_address_is_refused_without_its_password(address: str) -> None:
    text = await refusal(address)
    assert "postgresql://user:password@host/database" in text
    assert "secret" not in text


async def test_refused_connection_and_missing_database_are_reported(postgres: PostgresServer) -> None:
    nowhere = f"postgresql://someone:secret@127.0.0.1:{free_port()}/db"
    assert "refused" in await refusal(nowhere)
    assert "secret" not in await refusal(nowhere)
    assert '"missing" does not exist' in await refusal(postgres.url().replace("/postgres", "/missing"))


async def test_two_stores_can_open_the_database_without_an_owners_note(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    with trio.fail_after(30):
        async with open_store(url, [NOTES]) as one, open_store(url, [NOTES]) as other:
            one.announce({"admin_url": "http://127.0.0.1:1"})
            assert read_owner_note(url) is None
            await one.write(add_note("seen by both"))
            assert await other.read(lambda tx: tx.all("SELECT text FROM notes")) == [("seen by both",)]
            assert await all_texts(one) == ["seen by both"]
    assert is_shared(url)
    assert not is_shared("sqlite:///x.db")


async def test_closed_store_leaves_nothing_on_the_server(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    async with open_store(url, [NOTES]) as store:
        await store.write(add_note("one"))
        assert await store.read(lambda tx: tx.all("SELECT COUNT(*) FROM store_writers")) == [(1,)]
    async with open_store(url, [NOTES]) as store:
        own = "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name LIKE 'sluice-%'"
        assert await store.read(lambda tx: tx.all("SELECT COUNT(*) FROM store_writers")) == [(0,)]
        with trio.fail_after(5):
            while await store.read(lambda tx: tx.all(own)) != [(2,)]:  # noqa: ASYNC110 - nothing announces it
                await trio.sleep(0.05)


async def test_commit_is_durable_despite_server_settings(postgres: PostgresServer) -> None:
    url = postgres.fresh() + "?options=-c%20synchronous_commit%3Doff"
    async with open_store(url, [NOTES]) as store:
        shown = await store.write(lambda tx: tx.all("SELECT current_setting('synchronous_commit'), 1"))
        assert shown == [("on", 1)]
