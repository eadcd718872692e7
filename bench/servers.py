"""How each server of the bench is started: the sandbox that plays the upstreams, the gateway, the peers."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec

from bench.process import PYTHON, open_server, run_command

SLUICE = (PYTHON, "-c", "from gateway.cli import main; main()")
PEER = (PYTHON, "-m", "bench.peers")
CREDITS = "100000000"
CONFIG = """\
[server]
port = 0

[admin]
port = 0

[store]
url = "sqlite:///{folder}/sluice.db"

[limits]
requests_per_minute = 1000000
concurrent_requests = 10000

[log]
access = false

[upstreams]
egress = "{upstream_url}"
"""


@dataclass(frozen=True, slots=True)
class Bed:
    """What the servers of one run stand on: a folder for their files and the address of the sandbox."""

    folder: Path
    upstream_url: str


@dataclass(frozen=True, slots=True)
class Target:
    """A running server: its address, its process, and the headers that let a request in."""

    url: str
    pid: int
    key_headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Listening:
    """The line every server prints when it is ready."""

    url: str


@dataclass(frozen=True, slots=True)
class NewAccount:
    """What `sluice account create --json` prints."""

    id: str


@dataclass(frozen=True, slots=True)
class NewKey:
    """What `sluice key create --json` prints."""

    key: str


OpenServer = Callable[[Bed], AbstractAsyncContextManager[Target]]


@asynccontextmanager
async def _open_target(*command: str, log: Path) -> AsyncIterator[Target]:
    async with open_server(command, log=log) as child:
        listening = msgspec.json.decode(child.ready_line, type=Listening)
        yield Target(url=listening.url, pid=child.pid)


def open_sandbox(folder: Path) -> AbstractAsyncContextManager[Target]:
    """The built-in upstream sandbox."""
    return _open_target(*SLUICE, "sandbox", "--port", "0", log=folder / "sandbox.log")


def open_hello(bed: Bed) -> AbstractAsyncContextManager[Target]:
    """The bare Trio + httptools peer."""
    return _open_target(*PEER, "hello", log=bed.folder / "hello.log")


def open_plain(bed: Bed) -> AbstractAsyncContextManager[Target]:
    """The plain stack, forwarding to the sandbox."""
    return _open_target(*PEER, "plain", bed.upstream_url, log=bed.folder / "plain.log")


@asynccontextmanager
async def open_gateway(bed: Bed) -> AsyncIterator[Target]:
    """The gateway on a fresh store, with one account and its key."""
    config = bed.folder / "config.toml"
    config.write_text(CONFIG.format(folder=bed.folder, upstream_url=bed.upstream_url))
    key = await _new_key(str(config))
    serve = (*SLUICE, "serve", "--config", str(config))
    async with _open_target(*serve, log=bed.folder / "gateway.log") as target:
        yield Target(url=target.url, pid=target.pid, key_headers=(("x-api-key", key),))


async def _new_key(config: str) -> str:
    account = ("account", "create", "--config", config, "--name", "bench", "--credits", CREDITS, "--json")
    account_id = msgspec.json.decode(await run_command((*SLUICE, *account)), type=NewAccount).id
    key = ("key", "create", "--config", config, "--account", account_id, "--json")
    return msgspec.json.decode(await run_command((*SLUICE, *key)), type=NewKey).key


SERVERS: Mapping[str, OpenServer] = MappingProxyType(
    {"hello": open_hello, "plain": open_plain, "gateway": open_gateway}
)
