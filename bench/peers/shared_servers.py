"""Runs PostgreSQL and Redis servers for a node of the bench. They are new, on loopback, and removed at the end."""

import os
import pwd
import shutil
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from bench.core.errors import ChildFailed
from bench.core.process import START_S, STOP_S, end_of

USER = "bench"
CHECK_EVERY_S = 0.02
_DEBIAN = Path("/usr/lib/postgresql")


def missing_servers() -> list[str]:
    """Return the servers of a shared store that are not installed here."""
    found = {"redis-server": shutil.which("redis-server"), "postgresql": postgres_folder()}
    return [name for name, where in found.items() if where is None]


@asynccontextmanager
async def open_redis(folder: Path) -> AsyncIterator[str]:
    """Run a Redis server without persistence, and yield the address for `state.url`.

    Raises:
        ChildFailed: The server did not start.
    """
    port = _free_port()
    own = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder))
    async with _open(("redis-server", *own), port, log=folder / "redis.log"):
        yield f"redis://127.0.0.1:{port}"


@asynccontextmanager
async def open_postgres(place: Path | None = None, settings: Sequence[str] = ()) -> AsyncIterator[str]:
    """Run a PostgreSQL server with default settings plus the given ones, and yield the value for `store.url`.

    The server syncs every commit. Its files are in a new folder inside `place`, or inside the system's temporary
    folder, and are deleted when the block ends. PostgreSQL refuses to run as root. In that case it runs as an
    unprivileged user that owns the folder.

    Raises:
        ChildFailed: The server did not start.
    """
    programs, user = postgres_folder(), unprivileged()
    assert programs is not None
    with TemporaryDirectory(prefix="sluice-bench-postgres-", dir=place) as name:
        folder, port = Path(name), _free_port()
        if user is not None:
            os.chown(folder, user, user)
        made = (str(programs / "initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8")
        done = await trio.run_process(
            made, capture_stdout=True, capture_stderr=True, check=False, user=user, group=user, cwd=folder
        )
        if done.returncode:
            raise ChildFailed(f"initdb ended with {done.returncode}\n{done.stderr.decode(errors='replace').strip()}")
        own = ["-D", str(folder / "data"), "-p", str(port), "-h", "127.0.0.1", "-k", ""]
        own += [word for setting in settings for word in ("-c", setting)]
        async with _open((str(programs / "postgres"), *own), port, log=folder / "postgres.log", user=user):
            await _wait_ready((str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)))
            yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"


@asynccontextmanager
async def _open(command: Sequence[str], port: int, *, log: Path, user: int | None = None) -> AsyncIterator[None]:
    """Run a server until the block ends. The block begins once the server listens."""
    with log.open("wb") as out:
        process = await trio.lowlevel.open_process(
            list(command), stdout=out, stderr=out, user=user, group=user, cwd=log.parent, start_new_session=True
        )
    try:
        with trio.move_on_after(START_S) as patience:
            while process.poll() is None and not await _listens(port):  # noqa: ASYNC110 - a process does not set an event
                await trio.sleep(CHECK_EVERY_S)
        if patience.cancelled_caught or process.poll() is not None:
            raise ChildFailed(f"{command[0]} did not start\n{end_of(log)}")
        yield
    finally:
        with trio.move_on_after(STOP_S, shield=True):
            process.send_signal(2)  # SIGINT makes PostgreSQL end its connections, and Redis exit
            await process.wait()
        with trio.move_on_after(STOP_S, shield=True):
            process.kill()
            await process.wait()


async def _wait_ready(look: Sequence[str]) -> None:
    """Wait until a listening server responds.

    Raises:
        ChildFailed: The server does not respond.
    """
    with trio.move_on_after(START_S):
        while (await trio.run_process(look, check=False)).returncode:  # noqa: ASYNC110 - as above
            await trio.sleep(CHECK_EVERY_S)
        return
    raise ChildFailed(f"{look[0]} found no server")


async def _listens(port: int) -> bool:
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


def postgres_folder() -> Path | None:
    """Return the folder of the newest server's programs; Debian has one folder per version."""
    versions = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    found = versions[-1] if versions else shutil.which("postgres")
    return None if found is None else Path(found).resolve().parent


def unprivileged() -> int | None:
    """Return the user id for a server that refuses to run as root; None if the current user can run it."""
    if os.geteuid():
        return None
    names = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return names.get("postgres", names["nobody"])


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
