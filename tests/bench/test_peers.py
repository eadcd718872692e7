"""The peers serve what the scenarios ask of them."""

from pathlib import Path

import trio

from bench.cost import drive, options_from
from bench.load import Load
from bench.servers import Bed, open_hello, open_plain
from tests.bench.scripted_server import open_scripted


async def test_hello_answers_every_request(tmp_path: Path) -> None:
    with trio.fail_after(30):
        async with open_hello(Bed(folder=tmp_path, upstream_url="")) as target:
            load = Load(url=target.url, path="/", connections=4, warmup_s=0, requests_max=100, pid=target.pid)
            result = await drive(load)
    assert result.requests == 100
    assert result.unexpected == {}
    assert result.server_rss_bytes > 0


async def test_plain_forwards_path_and_query_to_its_upstream(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_scripted() as asked, open_plain(Bed(folder=tmp_path, upstream_url=asked.url)) as target:
            path = "/api.github.com/users/user{n}?page=2"
            result = await drive(Load(url=target.url, path=path, connections=2, warmup_s=0, requests_max=20))
    assert result.requests == 20
    assert result.unexpected == {}
    assert set(asked.targets) >= {b"/api.github.com/users/user%d?page=2" % n for n in range(1, 21)}


def test_the_options_have_defaults() -> None:
    options = options_from([])
    assert (options.connections, options.seconds, options.json) == (64, 5.0, False)


def test_the_options_are_read() -> None:
    options = options_from(["--connections", "8", "--seconds", "0.5", "--json"])
    assert (options.connections, options.seconds, options.json) == (8, 0.5, True)
