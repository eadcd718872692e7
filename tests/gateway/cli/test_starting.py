"""A starting node prints its URL, or says in one line why it cannot start and what to do, and exits with 1."""

import socket

import pytest

from tests.fakes.outsider import open_outsider
from tests.fakes.stores import engine
from tests.processes.place import Place


@pytest.mark.parametrize("table", ["server", "admin"])
def test_port_in_use_is_reported_with_its_setting(place: Place, table: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        place.configure(**{table: {"port": port}})
        said = place.operate("serve").refused(1)
    assert said == f"cannot listen on 127.0.0.1:{port}: Address already in use; change {table}.port or .host"


def test_foreign_address_is_rejected(place: Place) -> None:
    place.configure(server={"host": "192.0.2.1"})
    assert "cannot listen on 192.0.2.1:0: Cannot assign requested address" in place.operate("serve").refused(1)


@pytest.mark.parametrize("command", [("serve",), ("account", "list")], ids=" ".join)
def test_uncreatable_data_folder_is_reported(place: Place, command: tuple[str, ...]) -> None:
    """Method: a file is in place of the folder, so that not even root can write."""
    place.database.parent.write_text("in the way")
    said = place.operate(*command).refused(1)
    assert f"{place.database.parent.name}: cannot be created" in said


@pytest.mark.sqlite
def test_unwritable_folder_is_reported(place: Place) -> None:
    """The folder of the database file. Method: /proc accepts no new files."""
    place.configure(store={"url": "sqlite:////proc/self/fdinfo/sluice.db"})
    assert "/proc/self/fdinfo" in place.operate("serve").refused(1)


@pytest.mark.sqlite
def test_damaged_database_is_rejected_with_restore_steps(place: Place) -> None:
    """The file is damaged. A database server protects its own files."""
    place.json_of("account", "create", "--name", "kept")
    content = bytearray(place.database.read_bytes())
    content[100:4096] = bytes(len(content[100:4096]))
    place.database.write_bytes(content)
    for command in (("serve",), ("ledger", "verify")):
        said = place.operate(*command).refused(1)
        assert said.startswith(f"the database {place.database} is damaged")
        assert "restore the file from a backup" in said
        assert f"sqlite3 {place.database} .recover" in said
    assert place.database.read_bytes() == content


@pytest.mark.sqlite
def test_file_that_is_not_a_database_is_unchanged(place: Place) -> None:
    """Method: a text file in place of the database file."""
    place.database.parent.mkdir()
    place.database.write_text("my diary\n" * 1000)
    assert "is damaged" in place.operate("serve").refused(1)
    assert place.database.read_text() == "my diary\n" * 1000


def test_database_of_a_newer_version_is_rejected(place: Place) -> None:
    place.json_of("account", "create", "--name", "kept")
    table = {"sqlite": "_sqlite_migrations", "postgresql": "store_migrations"}[engine()]
    with open_outsider(place.store_url) as other:
        other.run(
            f"INSERT INTO {table} (migration_set, name, applied_at) VALUES ('billing', 'm9999_later', '2030-01-01')"
        )
    assert "newer" in place.operate("serve").refused(1)


@pytest.mark.parametrize("secret", ["", "short"])
def test_short_secret_is_rejected(place: Place, secret: str) -> None:
    said = place.run("serve", "--config", str(place.config), SLUICE_SECRET=secret).refused(1)
    assert said == "SLUICE_SECRET: the secret has fewer than 16 characters"


@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_listening_line_has_a_working_url(place: Place, host: str) -> None:
    place.configure(server={"host": host}, admin={"host": host})
    with place.serve("--sandbox") as node:
        assert node.get("/v1/status").status == 200
        assert node.admin("/readyz").status == 200
        assert place.json_of("account", "list") == []
