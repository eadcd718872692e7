"""The deliveries scenario against a real node, with few deliveries, and its report."""

from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import memory_stream_pair

from bench.load.histogram import Histogram
from bench.peers.receivers import CLOSED, KEPT, Receivers, open_receivers
from bench.scenarios.deliveries import DeliveryFigures, DeliveryPace, DeliveryTurn, Mail
from bench.scenarios.feed import measure_deliveries
from bench.scenarios.feed_marks import deliveries_found

FEW = partial(
    Mail, count=20, runs=6, runs_per_s=20.0, held=20, per_s=40.0, seconds=0.1, turns=1, warm_up=20, lead_s=1.0
)
PACE = DeliveryPace(1_000.0, 500.0)


async def test_deliveries_of_every_kind_arrive_despite_an_unresponsive_host() -> None:
    with trio.fail_after(90):
        seen = await measure_deliveries(FEW)
    assert all(min(pace.per_s, pace.cpu_us) > 0 for pace in (seen.plain, seen.kept, seen.closed))
    assert Histogram(seen.settled).total == seen.runs == 6
    assert len(seen.alone) == len(seen.beside) == 1
    for turn in (*seen.alone, *seen.beside):
        assert Histogram(turn.lags).total == 4
        assert turn.cpu_us > 0


async def test_receiver_responds_and_records_the_first_byte(tmp_path: Path) -> None:
    """Method: two requests on a reused connection, the second in two pieces; one on a connection that is not reused."""
    with trio.fail_after(90):
        async with open_receivers(tmp_path / "authority.pem") as (receivers, urls):
            host, port = urls.plain[0].removeprefix("http://").removesuffix("/hook").split(":")
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(request("one"))
                assert await stream.receive_some() == KEPT
                await stream.send_all(request("two")[:40])
                await trio.sleep(0.05)
                await stream.send_all(request("two")[40:])
                assert await stream.receive_some() == KEPT
            await receivers.wait_for(2)
            assert list(receivers.arrived) == ["one", "two"]
            assert "BEGIN CERTIFICATE" in (tmp_path / "authority.pem").read_text()
    with trio.fail_after(90):
        near, far = memory_stream_pair()
        await near.send_all(request("three"))
        await Receivers().answer(far, CLOSED)
        assert await near.receive_some() == CLOSED
        assert await near.receive_some() == b""


def request(delivery_id: str) -> bytes:
    return f"POST /hook HTTP/1.1\r\nHost: h\r\nwebhook-id: {delivery_id}\r\nContent-Length: 2\r\n\r\n{{}}".encode()


def test_marks_cover_settlement_and_the_effect_of_an_unresponsive_host() -> None:
    alone, beside = (
        [DeliveryTurn(dict(counts(ms).counts), 2_000.0) for ms in each] for each in ((9, 10, 50), (8, 10.8, 12))
    )
    settled = dict(counts(250.0).counts)
    found = deliveries_found(DeliveryFigures(PACE, PACE, PACE, settled, 2_500, tuple(alone), tuple(beside), 10_000))
    begun, hole = found.marks
    assert (begun.value, begun.limit, begun.unit) == (pytest.approx(0.25, rel=0.002), 1, "s")
    assert (hole.value, hole.limit, hole.met) == (pytest.approx(8, abs=0.3), 10, True)
    assert len({figure.name for figure in found.figures}) == len(found.figures) == 13


def counts(ms: float) -> Histogram:
    histogram = Histogram()
    histogram.record(round(ms * 1e6))
    return histogram
