"""Starts the servers of the bench: the sandbox that replaces the upstreams, the gateway, and the peers."""

import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from types import MappingProxyType

import msgspec
import trio

from bench.control.control_protocol import ControlAddress, open_control
from bench.core.errors import ChildFailed
from bench.core.process import PYTHON, open_server
from bench.core.scenarios import Stage
from bench.core.settings import BASE, Setting, toml
from bench.peers.shared_servers import missing_servers, open_postgres, open_redis
from gateway.config.secrets import derive_secrets, load_secret

SLUICE = (PYTHON, "-c", "from gateway.cli import main; main()")
PEER = (PYTHON, "-m", "bench.peers.peers")
CREDITS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Bed:
    """The environment of a server: a folder for its files, the address of the sandbox, and the scenario's stage.

    `under` is the command prefix of a program that runs the gateway, such as a profiler.
    """

    folder: Path
    upstream_url: str = ""
    stage: Stage = field(default_factory=Stage)
    under: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A running server: its address, its process, and the headers that authorize requests."""

    url: str
    pid: int
    key_headers: tuple[tuple[str, str], ...] = ()
    control: ControlAddress = field(default_factory=lambda: ControlAddress("", ""))
    """The address for the bench's commands, if the server accepts them; see `bench.control.control_protocol`."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The line that every server prints when it is ready."""

    url: str
    admin_url: str = ""


class CreateAccount(msgspec.Struct, frozen=True):
    """Create an account with credits. The response is `NewAccount`."""

    name: str
    credits: int


class NewAccount(msgspec.Struct, frozen=True):
    """The fields of a new account that the bench uses."""

    id: str


class CreateKey(msgspec.Struct, frozen=True):
    """Issue a key of an account. The response is `IssuedKey`."""

    account: str


class IssuedKey(msgspec.Struct, frozen=True):
    """The fields of a new key that the bench uses."""

    key: str


OpenServer = Callable[[Bed], AbstractAsyncContextManager[ServerTarget]]


@asynccontextmanager
async def open_stage(stage: Stage, *, under: tuple[str, ...] = ()) -> AsyncIterator[ServerTarget]:
    """Run the server of a stage, with the sandbox if the server calls an upstream, in a temporary folder.

    `under` is the command prefix of a program that runs the gateway, such as a profiler.

    Raises:
        ChildFailed: One of the servers did not start.
    """
    with TemporaryDirectory(prefix="sluice-bench-") as folder:
        bed = Bed(Path(folder), stage=stage, under=under)
        if stage.server == "hello":  # the only server that does not call an upstream
            async with SERVERS[stage.server](bed) as target:
                yield target
            return
        async with open_sandbox(bed) as sandbox:
            if stage.server == "sandbox":
                yield sandbox
                return
            async with SERVERS[stage.server](replace(bed, upstream_url=sandbox.url)) as target:
                yield target


def can_run(stage: Stage) -> bool:
    """Return whether the stage's server is installed here."""
    if stage.server == "shared":
        return not missing_servers()
    return stage.server != "nginx" or shutil.which("nginx") is not None


@asynccontextmanager
async def open_listening(
    *command: str, log: Path, environ: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[ServerTarget]:
    """Run a server that prints its address on its first line."""
    async with open_server(command, log=log, environ=environ) as child:
        listening = msgspec.json.decode(child.ready_line, type=Listening)
        yield ServerTarget(url=listening.url, pid=child.pid, control=ControlAddress(listening.admin_url, ""))


def open_sandbox(bed: Bed) -> AbstractAsyncContextManager[ServerTarget]:
    """Run the built-in upstream sandbox with the behavior that the stage defines."""
    latency, failing = ("--latency-ms", str(bed.stage.latency_ms)), ("--failure-rate", str(bed.stage.failure_rate))
    return open_listening(*SLUICE, "sandbox", "--port", "0", *latency, *failing, log=bed.folder / "sandbox.log")


def open_hello(bed: Bed) -> AbstractAsyncContextManager[ServerTarget]:
    """Run the bare Trio + httptools peer."""
    return open_listening(*PEER, "hello", log=bed.folder / "hello.log")


def open_plain(bed: Bed) -> AbstractAsyncContextManager[ServerTarget]:
    """Run the plain stack, forwarding to the sandbox."""
    return open_listening(*PEER, "plain", bed.upstream_url, log=bed.folder / "plain.log")


@asynccontextmanager
async def open_nginx(bed: Bed) -> AsyncIterator[ServerTarget]:
    """Run nginx as a reverse proxy with a key check and limits, forwarding to the sandbox."""
    key = "sl_nginx"
    peer = (*PEER, "nginx", bed.upstream_url, key, str(bed.folder))
    async with open_listening(*peer, log=bed.folder / "nginx.log") as target:
        yield ServerTarget(url=target.url, pid=target.pid, key_headers=(("x-api-key", key),))


def open_gateway(bed: Bed) -> AbstractAsyncContextManager[ServerTarget]:
    """Run the gateway on a fresh store, with one account and its key."""
    return _open_gateway(bed, {"store.url": f"sqlite:///{bed.folder}/sluice.db"})


@asynccontextmanager
async def open_feed(bed: Bed) -> AsyncIterator[ServerTarget]:
    """Run the gateway on a fresh store, with the bench's commands."""
    config = _write_config(bed, {"store.url": f"sqlite:///{bed.folder}/sluice.db"})
    node = (PYTHON, "-m", "bench.control.feed_node", config)
    async with open_listening(*node, log=bed.folder / "feed.log") as target:
        token = load_secret({}, bed.folder).admin_token
        yield replace(target, control=ControlAddress(target.control.url, token))


@asynccontextmanager
async def open_shared(bed: Bed) -> AsyncIterator[ServerTarget]:
    """Run the gateway as one of many nodes, with new PostgreSQL and Redis servers on this machine."""
    if missing := missing_servers():
        raise ChildFailed(f"not installed: {', '.join(missing)}")
    async with (
        open_postgres() as store_url,
        open_redis(bed.folder) as state_url,
        _open_gateway(bed, {"store.url": store_url, "state.url": state_url}) as target,
    ):
        yield target


@asynccontextmanager
async def _open_gateway(bed: Bed, where: Mapping[str, Setting]) -> AsyncIterator[ServerTarget]:
    serve, secret = (*bed.under, *SLUICE, "serve", "--config", _write_config(bed, where)), token_urlsafe(32)
    async with open_listening(*serve, log=bed.folder / "gateway.log", environ={"SLUICE_SECRET": secret}) as target:
        control = ControlAddress(target.control.url, derive_secrets(secret).admin_token)
        key = await trio.to_thread.run_sync(_new_key, control)
        yield ServerTarget(url=target.url, pid=target.pid, key_headers=(("x-api-key", key),))


def _write_config(bed: Bed, where: Mapping[str, Setting]) -> str:
    config = bed.folder / "config.toml"
    config.write_text(toml({**BASE, **where, "upstreams.egress": bed.upstream_url, **bed.stage.settings}))
    return str(config)


def _new_key(place: ControlAddress) -> str:
    with open_control(place) as control:
        account = control.call("account.create", CreateAccount("bench", CREDITS), NewAccount)
        return control.call("key.create", CreateKey(account.id), IssuedKey).key


SERVERS: Mapping[str, OpenServer] = MappingProxyType(
    {
        "hello": open_hello,
        "nginx": open_nginx,
        "plain": open_plain,
        "gateway": open_gateway,
        "shared": open_shared,
        "feed": open_feed,
    }
)
