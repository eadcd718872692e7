"""`sluice check`, and the config file that a command reads."""

from dataclasses import replace
from urllib.parse import urlsplit

import trio

from tests.fakes.chromium import open_chromium
from tests.fakes.outbound_proxy import OutboundProxy, open_outbound_proxy
from tests.processes.place import Place
from tests.servers.ports import free_ports
from upstreams.platforms import load_platforms
from upstreams.platforms.hackernews import PLATFORM as HACKERNEWS
from upstreams.web.browser.processes import memory_limit_bytes


def test_valid_file_passes(place: Place) -> None:
    ended = place.operate("check")
    assert (ended.exit_code, ended.out, ended.err) == (0, "the config is valid\n", "")


def test_every_problem_has_its_own_line(place: Place) -> None:
    place.configure(server={"port": 70_000}, upstreams={"githob": {"retries": 1}}, breaker={"failures": "five"})
    ended = place.operate("check")
    assert (ended.exit_code, ended.out) == (2, "")
    lines = ended.err.splitlines()
    for path in ("server.port", "upstreams.githob", "breaker.failures"):
        assert any(line.startswith(f"sluice: {place.config}: {path}: ") for line in lines), path
    assert len(lines) == 3


def test_invalid_or_missing_file_is_rejected(place: Place) -> None:
    place.config.write_text("[server]\nport = \n")
    assert "line 2" in place.operate("check").refused(2)
    assert "No such file" in place.run("check", "--config", "absent.toml").refused(2)


def test_newline_in_path_does_not_break_the_error_line(place: Place) -> None:
    refused = place.run("check", "--config", "no\nsuch.toml").refused(2)
    assert refused == "no such.toml: cannot be read: No such file or directory"


def test_config_path_defaults_to_environment_then_current_folder(place: Place) -> None:
    elsewhere = place.folder / "elsewhere.toml"
    elsewhere.write_text("[sever]\n")
    assert place.run("check").exit_code == 0
    assert f"{elsewhere}: sever" in place.run("check", SLUICE_CONFIG=str(elsewhere)).refused(2)
    assert place.run("check", "--config", str(place.config), SLUICE_CONFIG=str(elsewhere)).exit_code == 0


def test_node_does_not_start_with_invalid_config(place: Place) -> None:
    place.configure(server={"prt": 1})
    assert "server.prt: unknown key" in place.operate("serve").refused(2)


def test_guessable_secret_fails_check_and_start(place: Place) -> None:
    weak = "changeme-changeme"
    said = "SLUICE_SECRET: the secret is easy to guess; generate one with: openssl rand -base64 32"
    assert place.run("check", "--config", str(place.config), SLUICE_SECRET=weak).refused(2) == said
    assert place.run("serve", "--config", str(place.config), SLUICE_SECRET=weak).refused(1) == said


def test_doubtful_secret_is_reported_and_accepted(place: Place) -> None:
    doubtful = "lighthouse gravel tandem"
    ended = place.run("check", "--config", str(place.config), SLUICE_SECRET=doubtful)
    assert (ended.exit_code, ended.out) == (0, "the config is valid\n")
    said = "SLUICE_SECRET: the secret could be guessed; generate one with: openssl rand -base64 32"
    assert ended.err == f"sluice: warning: {said}\n"
    with replace(place, environ={"SLUICE_SECRET": doubtful}).serve() as node:
        (event,) = node.logged("secret_doubtful")
        assert (event["level"], event["problem"]) == ("warning", said)


def test_config_doubts_are_warnings_and_logged_at_start(place: Place) -> None:
    place.configure(upstreams={"github": {"token_env": "NEVER_SET_HERE"}})
    ended = place.operate("check")
    warning = "upstreams.github.token_env: the environment variable NEVER_SET_HERE is not set"
    assert (ended.exit_code, ended.err) == (0, f"sluice: warning: {warning}\n")
    with place.serve("--sandbox") as node:
        assert [event["problem"] for event in node.logged("config_doubtful")] == [warning]


def test_connect_reaches_store_and_upstreams(place: Place) -> None:
    with place.sandbox() as egress:
        place.configure(upstreams={"egress": egress})
        ended = place.operate("check", "--connect")
        assert (ended.exit_code, ended.err) == (0, "")
        assert ended.out == f"the config is valid\nstore: reachable\nupstreams.egress ({egress}): reachable\n"


async def test_connect_uses_the_proxy_of_a_platform(place: Place) -> None:
    """Method: all names lead to a port without a server, so that nothing leaves this machine."""
    (port,) = free_ports(1)
    only = {platform.slug: {"enabled": platform.slug == "hackernews"} for platform in load_platforms()}
    async with open_outbound_proxy("socks5h", refuse_all) as proxy:
        place.configure(upstreams={**only, "hackernews": {"proxy": proxy.url}})
        ended = await trio.to_thread.run_sync(place.operate, "check", "--connect")
        place.configure(upstreams={**only, "hackernews": {"proxy": f"http://127.0.0.1:{port}"}})
        away = await trio.to_thread.run_sync(place.operate, "check", "--connect")
    hosts = len({urlsplit(url).netloc for url in HACKERNEWS.sources.values()})
    assert ended.err.count("the outbound proxy refused the connection: not allowed by its rules\n") == hosts
    assert away.err.count("the outbound proxy cannot be reached: Connection refused\n") == hosts


async def refuse_all(_proxy: OutboundProxy, client: trio.SocketStream) -> None:
    for answer in (b"\x05\x00", b"\x05\x02\x00\x01"):
        await client.receive_some(4096)
        await client.send_all(answer)


def test_connect_reports_everything_unreachable(place: Place) -> None:
    port, other, third = free_ports(3)
    place.configure(
        upstreams={"egress": f"http://127.0.0.1:{port}"},
        store={"url": f"postgresql://nobody@127.0.0.1:{other}/none"},
        state={"url": f"redis://127.0.0.1:{third}"},
    )
    ended = place.operate("check", "--connect")
    assert (ended.exit_code, ended.out) == (1, "the config is valid\n")
    names = [line.split(":")[1].split(" (")[0].strip() for line in ended.err.splitlines()]
    assert names == ["store", "state", "upstreams.egress"]
    assert [line.rpartition(": ")[2] for line in ended.err.splitlines()[1:]] == ["Connection refused"] * 2


def test_browser_is_tried_and_its_memory_limit_checked(place: Place) -> None:
    """The machine may have a global limit; then there is no warning."""
    with place.sandbox() as egress, open_chromium() as browser:
        place.configure(upstreams={"egress": egress}, web={"browser_url": browser.url})
        ended = place.operate("check", "--connect")
        assert (ended.exit_code, f"web.browser_url ({browser.url}): reachable\n" in ended.out) == (0, True)
        warns = f"(process {browser.pid}) has no memory limit" in ended.err
        assert warns == (memory_limit_bytes(browser.pid) is None)
        nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
        place.configure(upstreams={"egress": egress}, web={"browser_url": nowhere})
        ended = place.operate("check", "--connect")
    assert ended.exit_code == 1
    assert f"web.browser_url ({nowhere}): " in ended.err
    assert "memory limit" not in ended.err, "nothing listens on that port"
