"""`sluice events tail` with a real node, and with a scripted feed for rare responses."""

import os
import signal
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme

from tests.fakes.outsider import open_outsider
from tests.fakes.scripted_feed import LOST, ScriptedFeed, Step, event, open_scripted_feed, page, refusal
from tests.processes.commands import PROJECT, SLUICE
from tests.processes.place import Place, Served
from tests.processes.process import Process
from tests.processes.programs import happen, has_line, read_line, rest_of
from tests.processes.waiting import wait_until

WAIT_S = 90.0
KEY = "sk_scripted"
OVER = refusal(401, "INVALID_API_KEY")
"""The step that ends a tail."""


@contextmanager
def tailing(place: Place, url: str, *options: str, key: str = KEY, stdout: int | None = None) -> Iterator[Process]:
    """Run a tail, and kill it at the end of the block if it is still running."""
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(place.folder), "SLUICE_API_KEY": key}
    arguments, log = ("events", "tail", "--url", url, *options), place.folder / "program.err"
    with place.commands.start(arguments, folder=place.folder, environ=environ, err=log, out=stdout) as started:
        try:
            yield Process(started, log)
        finally:
            started.kill()


def ids(lines: Sequence[str]) -> list[str]:
    return [orjson.loads(line)["id"] for line in lines]


@contextmanager
def serving_node(place: Place) -> Iterator[tuple[Served, str, str]]:
    """A node, an account and its key."""
    account, key = place.new_key()
    with place.serve() as node:
        yield node, account, key["key"]


def subject_of(line: bytes) -> str:
    return str(orjson.loads(line)["subject"]["id"])


def test_events_are_printed_one_per_line(place: Place) -> None:
    with serving_node(place) as (node, account, key):
        (first,) = happen(place, account, "first")
        with tailing(place, node.url, key=key) as tail:
            before = read_line(tail)
            second = place.json_of("key", "create", "--account", account)["id"]
            with open_outsider(place.store_url) as other:  # no command creates such a name
                other.run("UPDATE keys SET name = ? WHERE id = ?", "se\ncond \x1b[31m", second)
            place.json_of("key", "revoke", second)
            after = read_line(tail)
            tail.signal(signal.SIGTERM)
            assert (tail.wait(), rest_of(tail), tail.log.read_bytes()) == (0, [], b"")
    assert before.endswith(f"Z  key.revoked  key {first} (first)  last4={before[-5:-1].decode()}\n".encode())
    assert after.endswith(f"Z  key.revoked  key {second} (se?cond ?[31m)  last4={after[-5:-1].decode()}\n".encode())


def test_json_lines_equal_feed_events(place: Place) -> None:
    with serving_node(place) as (node, account, key):
        happen(place, account, "a", "b")
        given = node.get("/v1/events", key).json["data"]["items"]
        with tailing(place, node.url, "--json", key=key) as tail:
            printed = [orjson.loads(read_line(tail)) for _ in given]
    assert printed == given


def test_cursor_file_resumes_even_after_node_restart(place: Place) -> None:
    options = ("--json", "--cursor-file", "at.cursor")
    printed = []
    account, made = place.new_key()
    key = made["key"]
    happened = []
    for name in "ab":
        with place.recovering().serve() as node:
            happened += happen(place, account, f"{name}1", f"{name}2")
            with tailing(place, node.url, *options, key=key) as tail:
                printed += [subject_of(read_line(tail)), subject_of(read_line(tail))]
                tail.signal(signal.SIGINT)
                assert (tail.wait(), rest_of(tail)) == (0, [])
    assert printed == happened


def test_node_restart_loses_and_repeats_no_events(place: Place) -> None:
    place.configure(server={"port": 0, "drain_s": 1})
    account, key = place.new_key()
    with place.serve() as node:
        port = int(node.url.rpartition(":")[2])
    place.configure(server={"port": port, "drain_s": 1})
    happened: list[str] = []
    place = place.recovering()
    with place.serve() as node, tailing(place, node.url, "--json", "--attempts", "0", key=key["key"]) as tail:
        happened += happen(place, account, "before")
        printed = [subject_of(read_line(tail))]
        assert node.stop() == 0
        happened += happen(place, account, "meanwhile")
        with place.serve():
            happened += happen(place, account, "after")
            printed += [subject_of(read_line(tail)), subject_of(read_line(tail))]
            tail.signal(signal.SIGTERM)
            assert (tail.wait(), rest_of(tail)) == (0, [])
    assert printed == happened


def test_consumer_acknowledges_printed_events(place: Place) -> None:
    options = ("--json", "--consumer", "invoices", "--types", "key.*")
    with serving_node(place) as (node, account, key):
        printed = []
        happened = []
        for name in "ab":
            happened += happen(place, account, name)
            with tailing(place, node.url, *options, key=key) as tail:
                printed.append(subject_of(read_line(tail)))
                wait_until(lambda: consumer_of(node, key)["unread"] == 0)
                assert tail.stop() == 0
        assert printed == happened
        assert consumer_of(node, key)["types"] == ["key.revoked"]


def consumer_of(node: Served, key: str) -> Any:
    return node.get("/v1/events/consumers/invoices", key).json["data"]["consumer"]


def test_node_error_is_printed_with_next_step(place: Place) -> None:
    with serving_node(place) as (node, _, key):
        said = place.run("events", "tail", "--url", node.url, "--types", "key.revokd", SLUICE_API_KEY=key).refused(1)
    assert said == (
        "400 INVALID_REQUEST: types has an unknown event type 'key.revokd'; did you mean 'key.revoked'? "
        "Send types=key.revoked."
    )


def test_from_now_skips_earlier_events(place: Place, tmp_path: Path) -> None:
    with serving_node(place) as (node, account, key):
        happen(place, account, "old")
        with tailing(place, node.url, "--json", "--from", "now", "--cursor-file", "at", key=key) as tail:
            wait_until((tmp_path / "at").exists)
            (new,) = happen(place, account, "new")
            assert subject_of(read_line(tail)) == new


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_waiting_ends_silently(place: Place, number: signal.Signals) -> None:
    with open_scripted_feed() as feed, tailing(place, feed.url) as tail:
        assert feed.parked.wait(WAIT_S)
        tail.signal(number)
        assert (tail.wait(), rest_of(tail), tail.log.read_bytes()) == (0, [], b"")


def test_closed_stdout_ends_tail_even_while_waiting(place: Place) -> None:
    reading, writing = os.pipe()
    with open_scripted_feed() as feed, tailing(place, feed.url, stdout=writing) as tail:
        os.close(writing)
        assert feed.parked.wait(WAIT_S)
        os.close(reading)
        assert (tail.wait(), tail.log.read_bytes()) == (0, b"")


def test_unprinted_page_does_not_move_the_cursor(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "at"
    file.write_text("cur_0\n")
    with (
        open("/dev/full", "wb") as full,
        open_scripted_feed(page(event(1))) as feed,
        tailing(place, feed.url, "--cursor-file", "at", stdout=full.fileno()) as tail,
    ):
        assert tail.wait() == 1
    assert tail.log.read_text() == "sluice: stdout cannot be written: No space left on device\n"
    assert file.read_text() == "cur_0\n"


def test_read_sends_position_filters_and_key_header(place: Place) -> None:
    with open_scripted_feed(page(event(1), event(2)), page(cursor="cur_5"), OVER) as feed:
        options = ("--types", "key.revoked,credits.*", "--types", "discover.*", "--subject-id", "key_1,key_2")
        ended(place, feed, *options, "--from", "evt_9")
        always = {"wait_s": "25", "types": "key.revoked,credits.*,discover.*", "subject_id": "key_1,key_2"}
        assert feed.queries() == [{**always, "cursor": cursor} for cursor in ("evt_9", "cur_2", "cur_5")]
        assert {seen.headers["x-api-key"] for seen in feed.seen} == {KEY}
        assert {seen.path for seen in feed.seen} == {"/v1/events"}


def ended(place: Place, feed: ScriptedFeed, *options: str) -> tuple[list[str], list[str]]:
    """The output and the last error lines of a tail that ended with an error."""
    done = place.run("events", "tail", "--url", feed.url, *options, SLUICE_API_KEY=KEY)
    assert done.exit_code == 1, done
    return done.out.splitlines(), done.err.splitlines()


@pytest.mark.parametrize(
    "passing",
    [
        refusal(429, "RATE_LIMITED", headers={"retry-after": "1"}),
        refusal(500, "INTERNAL_ERROR"),
        Step(502, b"<html>bad gateway</html>"),
        refusal(503, "SERVICE_UNAVAILABLE", headers={"retry-after": "0"}, reason="store_unavailable"),
        Step(503, b""),
        Step(504, b""),
        LOST,
        Step(200, b"{}", {"content-length": "100", "connection": "close"}),
    ],
)
def test_temporary_failures_are_retried_and_reported(place: Place, passing: Step) -> None:
    with open_scripted_feed(page(event(1)), passing, page(event(2)), OVER) as feed:
        lines, said = ended(place, feed, "--json")
        assert ids(lines) == ["evt_1", "evt_2"]
        assert [query["cursor"] for query in feed.queries()[-2:]] == ["cur_1", "cur_2"]
    assert all("; retrying in " in line for line in said[:-1])
    assert said[-1] == "sluice: 401 INVALID_API_KEY: It is refused."


def test_tail_gives_up_after_the_configured_attempts(place: Place) -> None:
    away = refusal(503, "SERVICE_UNAVAILABLE", headers={"retry-after": "0"}, next_step="Ask again.")
    with open_scripted_feed(away, page(event(1)), away, away, page(event(2))) as feed:
        lines, said = ended(place, feed, "--attempts", "2", "--json")
    assert ids(lines) == ["evt_1"]
    assert said[-1] == "sluice: 503 SERVICE_UNAVAILABLE: It is refused. Ask again.; giving up after attempt 2"


@pytest.mark.parametrize(
    ("final", "words"),
    [
        (refusal(400, "INVALID_REQUEST", next_step="Read again with cursor=oldest."), "400 INVALID_REQUEST: It is"),
        (refusal(401, "INVALID_API_KEY"), "401 INVALID_API_KEY: It is refused."),
        (refusal(404, "RESOURCE_NOT_FOUND"), "404 RESOURCE_NOT_FOUND: It is refused."),
        (Step(302, b"", {"location": "http://127.0.0.1:1/"}), "status 302, from a server that is not a Sluice node"),
        (Step(200, b"<html>hello</html>"), "status 200, from a server that is not a Sluice node"),
        (Step(200, b'{"data":{"items":{}}}'), "status 200, from a server that is not a Sluice node"),
        (Step(200, b"\xff"), "status 200, from a server that is not a Sluice node"),
    ],
)
def test_permanent_failure_ends_tail_with_message(place: Place, final: Step, words: str) -> None:
    with open_scripted_feed(final) as feed:
        lines, said = ended(place, feed)
        assert (lines, len(said), len(feed.seen)) == ([], 1, 1)
    assert said[0].startswith(f"sluice: {words}")


def test_expired_cursor_is_reported_and_restarts_at_oldest(place: Place) -> None:
    gone = refusal(410, "CURSOR_EXPIRED", missed_from="2026-10-01T00:00:00Z", missed_until="2026-10-22T00:00:00Z")
    (place.folder / "at").write_text("cur_0\n")
    with open_scripted_feed(gone, page(event(7)), OVER) as feed:
        lines, said = ended(place, feed, "--json", "--cursor-file", "at")
        assert [query["cursor"] for query in feed.queries()] == ["cur_0", "oldest", "cur_7"]
    assert ids(lines) == ["evt_7"]
    assert said[0] == (
        "sluice: events from 2026-10-01T00:00:00Z until 2026-10-22T00:00:00Z were removed by retention before "
        "they were read; continuing at the oldest stored event"
    )


def test_lapsed_consumer_restarts_and_reports_lost_positions(place: Place) -> None:
    gone = refusal(410, "CURSOR_EXPIRED", missed_from=None, missed_until="2026-10-22T00:00:00Z")
    restarted = page(event(7), restarted_from="cur_0", dropped=6)
    with open_scripted_feed(gone, restarted, OVER) as feed:
        lines, said = ended(place, feed, "--json", "--consumer", "c", "--from", "now")
        assert feed.queries() == [{"wait_s": "25", "consumer": "c", "start": "now"}] * 3
        assert feed.acked() == ["cur_7"]
    assert ids(lines) == ["evt_7"]
    assert said[0].startswith("sluice: events until 2026-10-22T00:00:00Z were removed")
    assert said[1] == "sluice: the consumer restarts at the oldest stored event; 6 positions were lost"


def test_feed_with_only_410_ends_tail(place: Place) -> None:
    with open_scripted_feed(*[refusal(410, "CURSOR_EXPIRED")] * 3) as feed:
        assert ended(place, feed)[1][-1] == "sluice: 410 CURSOR_EXPIRED: It is refused."
        assert len(feed.seen) == 2


def test_acknowledgement_is_retried_and_sent_only_for_new_positions(
    place: Place,
) -> None:
    away = refusal(503, "SERVICE_UNAVAILABLE", headers={"retry-after": "0"})
    with open_scripted_feed(page(event(1)), page(cursor="cur_1"), page(event(2)), OVER, acks=[away, LOST]) as feed:
        lines, _ = ended(place, feed, "--json", "--consumer", "c")
        assert feed.acked() == ["cur_1", "cur_1", "cur_1", "cur_2"]
    assert ids(lines) == ["evt_1", "evt_2"]


def test_rejected_acknowledgement_ends_tail(place: Place) -> None:
    with open_scripted_feed(page(event(1)), acks=[refusal(404, "RESOURCE_NOT_FOUND")]) as feed:
        assert ended(place, feed, "--consumer", "c")[1] == ["sluice: 404 RESOURCE_NOT_FOUND: It is refused."]


def test_signal_during_acknowledgement_lets_it_finish(place: Place) -> None:
    with (
        open_scripted_feed(page(event(1)), page(event(2))) as feed,
        tailing(place, feed.url, "--consumer", "c") as tail,
    ):
        read_line(tail)
        tail.signal(signal.SIGTERM)
        assert tail.wait() == 0
        assert feed.acked()[:1] == ["cur_1"]
        assert len(feed.acked()) == 1 + len(rest_of(tail))


def test_poll_interval_is_respected(place: Place) -> None:
    later = page(event(1), headers={"x-poll-interval": "3600"})
    with open_scripted_feed(later, OVER) as feed, tailing(place, feed.url) as tail:
        read_line(tail)
        with pytest.raises(subprocess.TimeoutExpired):
            tail.popen.wait(0.5)
        assert len(feed.seen) == 1
        assert tail.stop() == 0


def test_node_messages_cannot_control_the_terminal(place: Place) -> None:
    with open_scripted_feed(refusal(400, "INVALID\n\x1b[2J")) as feed:
        assert ended(place, feed)[1] == ["sluice: 400 INVALID??[2J: It is refused."]


@pytest.mark.parametrize(
    ("options", "environ", "words"),
    [
        ((), {}, "no API key: set SLUICE_API_KEY, or use --key-file"),
        ((), {"SLUICE_API_KEY": "two\nlines"}, "SLUICE_API_KEY does not contain a valid key"),
        (("--key-file", "absent"), {}, "absent cannot be read: No such file or directory"),
        (("--url", "ftp://node"), {"SLUICE_API_KEY": KEY}, "Invalid value for --url: must be a URL such as "),
        (("--url", "http://node:99999"), {"SLUICE_API_KEY": KEY}, "Invalid value for --url: must be a URL such"),
        (("--url", f"http://{KEY}@node"), {"SLUICE_API_KEY": KEY}, "Invalid value for --url: must be only the node"),
        (
            ("--url", f"http://node/?key={KEY}"),
            {"SLUICE_API_KEY": KEY},
            "Invalid value for --url: must be only the node",
        ),
        (("--from", "yesterday"), {"SLUICE_API_KEY": KEY}, "Invalid value for --from: must be oldest, now, a cursor"),
        (("--consumer", "A b"), {"SLUICE_API_KEY": KEY}, "Invalid value for --consumer: must be 1 to 64 characters"),
        (
            ("--consumer", "c", "--from", "cur_1"),
            {"SLUICE_API_KEY": KEY},
            "Invalid value for --from: must be oldest or",
        ),
        (
            ("--consumer", "c", "--cursor-file", "f"),
            {"SLUICE_API_KEY": KEY},
            "Invalid value for --cursor-file: cannot be used",
        ),
        (("--attempts", "-1"), {"SLUICE_API_KEY": KEY}, "Invalid value for '--attempts': "),
    ],
)
def test_wrong_usage_is_rejected_before_any_request(
    place: Place, options: tuple[str, ...], environ: dict[str, str], words: str
) -> None:
    said = place.run("events", "tail", *options, **environ).refused(2)
    assert said.startswith(words)
    assert KEY not in said


def test_certificate_is_verified(place: Place) -> None:
    authority, tls = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(place.folder / "authority.pem"))
    with open_scripted_feed(page(event(1)), OVER, tls=tls) as feed:
        words = ("events", "tail", "--url", feed.url)
        said = place.run(*words, SLUICE_API_KEY=KEY).refused(1)
        assert said.startswith("the node's certificate is not valid: ")
        assert feed.seen == []
        trusting = place.run(*words, SLUICE_API_KEY=KEY, SSL_CERT_FILE=str(place.folder / "authority.pem"))
    assert "evt_1" not in trusting.out
    assert "key_1" in trusting.out


def test_second_signal_ends_tail_with_blocked_stdout_and_keeps_cursor(place: Place, tmp_path: Path) -> None:
    (tmp_path / "at").write_text("cur_0\n")
    many = [event(number, name="x" * 1_000) for number in range(1, 60)]
    with (
        open_scripted_feed(page(*many, *many)) as feed,
        tailing(place, feed.url, "--json", "--cursor-file", "at") as tail,
    ):
        wait_until(lambda: has_line(tail, 0.01))
        tail.signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            tail.popen.wait(0.3)
        tail.signal(signal.SIGTERM)
        assert tail.wait() == 0
    assert (tmp_path / "at").read_text() == "cur_0\n"


def test_key_can_be_read_from_a_file(place: Place) -> None:
    (place.folder / "key").write_text(f"{KEY}2\n")
    with open_scripted_feed(OVER) as feed:
        ended(place, feed, "--key-file", "key")
        assert [seen.headers["x-api-key"] for seen in feed.seen] == [f"{KEY}2"]


def test_file_without_a_cursor_is_not_changed(place: Place) -> None:
    (place.folder / "at").write_text("precious\n")
    ended_ = place.run("events", "tail", "--cursor-file", "at", SLUICE_API_KEY=KEY)
    assert ended_.refused(1) == "at does not contain a cursor; delete it to start over"
    assert (place.folder / "at").read_text() == "precious\n"


def test_cursor_file_in_missing_folder_is_rejected_before_printing(place: Place) -> None:
    said = place.run("events", "tail", "--cursor-file", "absent/at", SLUICE_API_KEY=KEY).refused(1)
    assert said == "absent/at cannot be written: the folder absent does not exist"


def test_unreachable_node_is_named(place: Place) -> None:
    ended_ = place.run("events", "tail", "--url", "http://127.0.0.1:1", "--attempts", "1", SLUICE_API_KEY=KEY)
    said = "the connection to 127.0.0.1:1 failed: Connection refused; giving up after attempt 1"
    assert ended_.refused(1) == said


def test_closed_stdout_is_rejected_before_losing_events(tmp_path: Path) -> None:
    with open_scripted_feed(page(event(1))) as feed:
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "SLUICE_API_KEY": KEY}
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *SLUICE, "events", "tail", "--url", feed.url]
        done = subprocess.run(command, env=environ, stderr=subprocess.PIPE, timeout=WAIT_S, check=False)
        assert feed.seen == []
    assert (done.returncode, done.stderr) == (2, b"sluice: stdout is closed; there is nowhere to print\n")
