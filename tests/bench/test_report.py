"""The figures are plain arithmetic over what was measured in one run."""

import msgspec
import pytest

from bench.load import Measured
from bench.report import figures, remark, table
from bench.scenarios import SCENARIOS, Scenario, load_for
from bench.servers import SERVERS, Target


def run(
    name: str, *, cpu_s: float = 1.0, requests: int = 10_000, mark_us: float | None = None, **unexpected: int
) -> tuple[Scenario, Measured]:
    result = Measured(
        requests=requests,
        seconds=5.0,
        p50_ms=1.25,
        p99_ms=7.5,
        server_cpu_s=cpu_s,
        server_rss_bytes=50_000_000,
        client_cpu_s=0.05,
        unexpected=unexpected,
    )
    return Scenario(name=name, server="gateway", path="/", mark_us=mark_us), result


def test_cost_is_cpu_time_over_requests_and_ratios_are_to_the_peers_of_the_run() -> None:
    runs = [run("hello", cpu_s=0.2), run("plain", cpu_s=20.0), run("miss", cpu_s=2.0)]
    miss = figures(runs)[2]
    assert miss.cpu_us == pytest.approx(200)
    assert miss.per_second == pytest.approx(2000)
    assert miss.to_hello == pytest.approx(10)
    assert miss.to_plain == pytest.approx(0.1)
    assert miss.client_us == pytest.approx(5)


def test_without_a_valid_peer_there_is_no_ratio() -> None:
    runs = [run("hello", closed=1), run("miss")]
    assert [line.to_hello for line in figures(runs)] == [None, None]
    assert [line.to_plain for line in figures(runs)] == [None, None]


@pytest.mark.parametrize(("cpu_s", "met"), [(2.49, True), (2.5, True), (2.51, False)])
def test_a_mark_is_met_up_to_its_figure(cpu_s: float, met: bool) -> None:
    (line,) = figures([run("miss", cpu_s=cpu_s, mark_us=250)])
    assert line.met is met
    assert remark(line) == ("mark 250: met" if met else "mark 250: not met")


def test_an_invalid_run_meets_no_mark_and_says_why() -> None:
    (line,) = figures([run("miss", mark_us=250, **{"429": 3, "closed": 1})])
    assert line.met is None
    assert remark(line) == "invalid: 3 x 429, 1 x closed"


def test_a_run_without_an_answer_has_figures_too() -> None:
    lines = figures([run("hello", requests=0, cpu_s=0), run("miss", requests=0, mark_us=250)])
    assert lines[1].cpu_us == 0
    assert lines[1].to_hello is None
    assert lines[1].met is False


def test_the_table_has_one_aligned_line_for_each_scenario() -> None:
    lines = table(figures([run("hello", cpu_s=0.2), run("miss", cpu_s=2, mark_us=250)])).splitlines()
    assert len(lines) == 3
    assert lines[2].split()[:6] == ["miss", "10000", "2000", "200", "10", "-"]
    assert lines[2].endswith("mark 250: met")
    assert lines[0].index("us/req") + len("us/req") == lines[2].index(" 200 ") + len(" 200")


def test_figures_are_json() -> None:
    (line,) = figures([run("hello")])
    assert msgspec.json.decode(msgspec.json.encode(line))["cpu_us"] == pytest.approx(100)


def test_every_scenario_has_a_name_of_its_own_and_a_server() -> None:
    assert len({row.name for row in SCENARIOS}) == len(SCENARIOS)
    assert {row.server for row in SCENARIOS} <= set(SERVERS)


def test_the_key_is_sent_unless_the_scenario_is_a_stranger_s() -> None:
    target = Target(url="http://127.0.0.1:1", pid=1, key_headers=(("x-api-key", "k"),))
    row = Scenario(name="replay", server="gateway", path="/", headers=(("idempotency-key", "b"),))
    stranger = Scenario(name="unauthorized", server="gateway", path="/", with_key=False)
    assert load_for(row, target, connections=1, seconds=1).headers == (("x-api-key", "k"), ("idempotency-key", "b"))
    assert load_for(stranger, target, connections=1, seconds=1).headers == ()
