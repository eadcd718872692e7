"""Receivers with certificates, and attempts that reach them as if they had public addresses."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass

import trio
import trustme

from scheduler.webhooks.deliveries.sender import Attempt, Sender, open_sender
from tests.fakes.routed_net import RoutedNet
from tests.fakes.upstream_server import Script, UpstreamServer, open_upstream_server
from upstreams.guard.resolver import Resolve

HOST = "hooks.example.com"
PUBLIC = "93.184.215.14"
OTHER_PUBLIC = "151.101.1.69"
AUTHORITY = trustme.CA()
BODY = b'{"run_id":"run_1"}'
TEST_S = 30.0


def client_tls() -> ssl.SSLContext:
    """Return a TLS context that trusts the authority of the receivers' certificates."""
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


def server_tls(name: str = HOST) -> ssl.SSLContext:
    """Return the TLS context of a receiver, with its own certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert(name).configure_cert(context)
    return context


class Resolver:
    """Returns the given lists of addresses one after another, repeats the last one, and records the lookups."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.asked.append((host, port))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@dataclass(frozen=True, slots=True)
class Scene:
    """A receiver, and the sender that finds it under `HOST`."""

    server: UpstreamServer
    sender: Sender
    net: RoutedNet

    @property
    def url(self) -> str:
        return f"{self.server.origin.scheme}://{HOST}:{self.server.origin.port}/in?x=1"

    async def attempt(self, url: str = "", *, within_s: float = TEST_S) -> Attempt:
        deadline_at = trio.current_time() + within_s
        return await self.sender.attempt(url or self.url, BODY, headers=(("x-a", "b"),), deadline_at=deadline_at)


@asynccontextmanager
async def receiving(
    script: Script,
    *,
    tls: ssl.SSLContext | None = None,
    resolve: Resolve | None = None,
    routes: Mapping[str, tuple[str, int]] | None = None,
    idle_s: float = 30,
    in_the_clear: bool = False,
) -> AsyncIterator[Scene]:
    """Run a receiver at `PUBLIC`. `script` controls every byte; `in_the_clear` is for tests of whole nodes."""
    with trio.fail_after(TEST_S):
        async with open_upstream_server(script, None if in_the_clear else tls or server_tls()) as server:
            here = ("127.0.0.1", server.origin.port)
            net = RoutedNet({PUBLIC: here, "127.0.0.1": here} if routes is None else routes)
            resolver = resolve or Resolver([PUBLIC])
            async with open_sender(
                resolve=resolver, allow_insecure=in_the_clear, ssl_context=client_tls(), idle_s=idle_s
            ) as sender:
                with net.routed() if not in_the_clear else nullcontext():
                    yield Scene(server, sender, net)
