"""`sluice check`, and which file a command reads."""

from dataclasses import replace

from tests.fakes.chromium import open_chromium
from tests.processes.commands import PROJECT
from tests.processes.place import Place
from tests.servers.ports import free_ports
from upstreams.web.browser.processes import memory_limit_bytes


def test_a_good_file_passes(place: Place) -> None:
    ended = place.operate("check")
    assert (ended.exit_code, ended.out, ended.err) == (0, "the config is valid\n", "")


def test_the_file_that_comes_with_the_program_passes(place: Place) -> None:
    assert place.run("check", "--config", str(PROJECT / "config.toml")).exit_code == 0


def test_an_unknown_key_is_named_with_its_file_its_path_and_the_nearest_valid_one(place: Place) -> None:
    place.configure(limits={"request_per_minute": 10})
    said = place.operate("check").refused(2)
    assert said.startswith(f"{place.config}: limits.request_per_minute: unknown key")
    assert said.endswith('did you mean "limits.requests_per_minute"?')


def test_every_problem_has_a_line_of_its_own(place: Place) -> None:
    place.configure(server={"port": 70_000}, upstreams={"githob": {"retries": 1}}, breaker={"failures": "five"})
    ended = place.operate("check")
    assert (ended.exit_code, ended.out) == (2, "")
    lines = ended.err.splitlines()
    for path in ("server.port", "upstreams.githob", "breaker.failures"):
        assert any(line.startswith(f"sluice: {place.config}: {path}: ") for line in lines), path
    assert len(lines) == 3


def test_a_file_that_is_no_toml_or_not_there_is_refused(place: Place) -> None:
    place.config.write_text("[server]\nport = \n")
    assert "line 2" in place.operate("check").refused(2)
    assert "No such file" in place.run("check", "--config", "absent.toml").refused(2)


def test_what_an_error_quotes_does_not_end_its_line(place: Place) -> None:
    refused = place.run("check", "--config", "no\nsuch.toml").refused(2)
    assert refused == "no such.toml: cannot be read: No such file or directory"


def test_without_an_option_sluice_config_names_the_file_and_else_it_is_here(place: Place) -> None:
    elsewhere = place.folder / "elsewhere.toml"
    elsewhere.write_text("[sever]\n")
    assert place.run("check").exit_code == 0
    assert f"{elsewhere}: sever" in place.run("check", SLUICE_CONFIG=str(elsewhere)).refused(2)
    assert place.run("check", "--config", str(place.config), SLUICE_CONFIG=str(elsewhere)).exit_code == 0


def test_a_node_does_not_start_on_a_bad_file(place: Place) -> None:
    place.configure(server={"prt": 1})
    assert "server.prt: unknown key" in place.operate("serve").refused(2)


def test_a_state_that_a_node_could_not_read_fails_at_the_check(place: Place) -> None:
    place.configure(state={"url": "redis://:s3cr3t@state.internal:6379/main"})
    said = place.operate("check").refused(2)
    assert said.startswith(f"{place.config}: state.url: not the address of a Redis; expected redis://HOST:PORT/DB")
    assert "s3cr3t" not in said


def test_a_secret_that_is_easily_guessed_fails_at_the_check_and_at_the_start(place: Place) -> None:
    weak = "changeme-changeme"
    said = "SLUICE_SECRET: the secret is easy to guess; generate one with: openssl rand -base64 32"
    assert place.run("check", "--config", str(place.config), SLUICE_SECRET=weak).refused(2) == said
    assert place.run("serve", "--config", str(place.config), SLUICE_SECRET=weak).refused(1) == said


def test_a_doubtful_secret_is_told_and_taken(place: Place) -> None:
    doubtful = "lighthouse gravel tandem"
    ended = place.run("check", "--config", str(place.config), SLUICE_SECRET=doubtful)
    assert (ended.exit_code, ended.out) == (0, "the config is valid\n")
    said = "SLUICE_SECRET: the secret could be guessed; generate one with: openssl rand -base64 32"
    assert ended.err == f"sluice: warning: {said}\n"
    with replace(place, environ={"SLUICE_SECRET": doubtful}).serve() as node:
        (event,) = node.logged("secret_doubtful")
        assert (event["level"], event["problem"]) == ("warning", said)


def test_doubts_are_warnings_and_a_node_logs_them_at_its_start(place: Place) -> None:
    place.configure(upstreams={"github": {"token_env": "NEVER_SET_HERE"}})
    ended = place.operate("check")
    warning = "upstreams.github.token_env: the environment variable NEVER_SET_HERE is not set"
    assert (ended.exit_code, ended.err) == (0, f"sluice: warning: {warning}\n")
    with place.serve("--sandbox") as node:
        assert [event["problem"] for event in node.logged("config_doubtful")] == [warning]


def test_connecting_reaches_the_store_and_the_upstreams(place: Place) -> None:
    with place.sandbox() as egress:
        place.configure(upstreams={"egress": egress})
        ended = place.operate("check", "--connect")
        assert (ended.exit_code, ended.err) == (0, "")
        assert ended.out == f"the config is valid\nstore: reachable\nupstreams.egress ({egress}): reachable\n"


def test_connecting_names_all_that_cannot_be_reached(place: Place) -> None:
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


def test_browser_of_this_machine_without_a_memory_limit_is_a_doubt(place: Place) -> None:
    """The machine may have a limit of its own for all that runs on it: then there is none to warn of."""
    with open_chromium() as browser:
        place.configure(web={"browser_url": browser.url})
        ended = place.operate("check")
        warns = f"(process {browser.pid}) has no memory limit" in ended.err
        assert (ended.exit_code, warns) == (0, memory_limit_bytes(browser.pid) is None)
    assert "memory limit" not in place.operate("check").err, "nothing listens there"


def test_connecting_tries_the_browser(place: Place) -> None:
    nowhere = free_ports(1)[0]
    with place.sandbox() as egress, open_chromium() as browser:
        for url, code in ((browser.url, 0), (f"http://127.0.0.1:{nowhere}", 1)):
            place.configure(upstreams={"egress": egress}, web={"browser_url": url})
            ended = place.operate("check", "--connect")
            assert ended.exit_code == code
            named = f"web.browser_url ({url}): "
            assert f"{named}reachable\n" in ended.out if code == 0 else named in ended.err
