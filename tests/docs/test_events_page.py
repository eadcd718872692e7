"""docs/events.md: its table equals the registry, its commands run, and its loops work as described."""

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from events.consumers.rows import CONSUMERS_MAX
from events.consumers.rules import DAY_S, LAPSE_S
from events.log.kinds import FAMILIES
from events.log.pages import SCAN_MAX
from gateway.docs.pages.event_types import types_table
from gateway.feed.polling import BEAT_S
from gateway.feed.queries import SUBJECTS_MAX, WAIT_S_MAX
from tests.docs.blocks import commands, shell_blocks
from tests.fakes.calling import get
from tests.fakes.scripted_feed import LOST, Step, event, open_scripted_feed, page, refusal
from tests.processes.commands import PROJECT, SLUICE, open_commands
from tests.processes.place import Place
from tests.processes.process import Process
from tests.processes.programs import happen, has_line, open_program, read_line, rest_of
from tests.processes.waiting import wait_until

PAGE = PROJECT / "docs" / "events.md"
LANGUAGES = {"python": (sys.executable, ".py"), "javascript": ("node", ".mjs"), "bash": ("sh", ".sh")}
HELD_S = 90.0
AWAY = refusal(503, "SERVICE_UNAVAILABLE", headers={"retry-after": "0"})
of_each_loop = pytest.mark.parametrize("language", LANGUAGES)


@dataclass(frozen=True, slots=True)
class Home:
    """A node with an account, and the folder for commands."""

    place: Place
    url: str
    account: str
    key: str


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with open_commands() as runner:
        place = Place(tmp_path_factory.mktemp("events"), runner)
        place.configure()
        account, key = place.new_key()
        with place.serve() as node:
            yield Home(place, node.url, account, key["key"])


@contextmanager
def looping(language: str, folder: Path, url: str, key: str = "sk_scripted") -> Iterator[Process]:
    """Run the page's loop in a language."""
    program, ending = LANGUAGES[language]
    if shutil.which(program) is None:
        assert not os.environ.get("SLUICE_REQUIRE_SERVERS"), f"{program} is not installed"
        pytest.skip(f"{program} is not installed")
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    file = folder / f"loop{ending}"
    file.write_text(code)
    with open_program((program, str(file)), folder, {"SLUICE_URL": url, "SLUICE_API_KEY": key}) as process:
        yield process


def test_event_type_table_matches_registry() -> None:
    text = PAGE.read_text()
    assert types_table() in text, f"the table should be\n{types_table()}"
    assert f"({', '.join(f'`{family}`' for family in FAMILIES)})" in text


def test_documented_limits_match_code() -> None:
    text = " ".join(PAGE.read_text().split())
    for told in (
        f"one read searches at most {SCAN_MAX:,} positions",
        f"`subject_id` accepts up to {SUBJECTS_MAX} subject ids",
        f"With `wait_s` (up to {WAIT_S_MAX} seconds)",
        f"a key has at most {CONSUMERS_MAX}",
        f"after {LAPSE_S / DAY_S:.0f} days",
        f"after at most {BEAT_S:.0f} seconds without an event",
    ):
        assert told in text, told


def test_error_table_lists_every_feed_reason() -> None:
    sources = [*(PROJECT / "gateway" / "feed").glob("*.py"), PROJECT / "gateway" / "api" / "routes" / "consumers.py"]
    code = "".join(source.read_text() for source in sources)
    reasons = set(re.findall(r"[\"\']?reason[\"\']?(?:: |=|: str = )\"([a-z_]+)\"", code))
    assert "retention_passed" in reasons
    assert {reason for reason in reasons if f"`{reason}`" not in PAGE.read_text()} == set()


def tail_commands() -> list[tuple[str, ...]]:
    blocks = [block for file in (PAGE, PROJECT / "README.md") for block in shell_blocks(file)]
    found = [command.words for block in blocks for command in commands(block.text)]
    return [words for words in found if words[:3] == ("sluice", "events", "tail")]


@pytest.mark.parametrize("words", tail_commands(), ids=" ".join)
def test_documented_tail_prints_events(words: Sequence[str], home: Home, tmp_path: Path) -> None:
    arguments = [home.url if word.startswith("http:") else word for word in words[1:]]
    with open_program((*SLUICE, *arguments), tmp_path, {"SLUICE_URL": home.url, "SLUICE_API_KEY": home.key}) as tail:
        give_up_at = time.monotonic() + HELD_S
        happen(home.place, home.account, "laptop")
        while not has_line(tail, 0.5):  # a tail that starts now may have missed the first event
            assert time.monotonic() < give_up_at, tail.log.read_text()
            happen(home.place, home.account, "laptop")
        assert b"key.revoked" in read_line(tail)
        assert tail.stop() == 0
    assert tail.log.read_bytes() == b""


def unread(url: str, key: str) -> object:
    """Return the events that the page's consumer has not acknowledged yet."""
    return get(f"{url}/v1/events/consumers/billing", key).json["data"]["consumer"]["unread"]


def event_ids(url: str, key: str) -> list[str]:
    """Return all events in the order of the feed."""
    return [item["id"] for item in get(f"{url}/v1/events", key).json["data"]["items"]]


@of_each_loop
def test_documented_loop_handles_each_event_once_and_resumes(language: str, home: Home, tmp_path: Path) -> None:
    account, made = home.place.new_key()
    happened, printed = [], []
    for name in "ab":
        happened += happen(home.place, account, name)
        with looping(language, tmp_path, home.url, made["key"]) as loop:
            printed.append(read_line(loop).split()[0].decode())
            wait_until(lambda: unread(home.url, made["key"]) == 0)
            happened += happen(home.place, account, f"{name}2")
            printed.append(read_line(loop).split()[0].decode())
            wait_until(lambda: unread(home.url, made["key"]) == 0)
    assert printed == event_ids(home.url, made["key"])
    assert len(printed) == len(happened)


@of_each_loop
def test_documented_loop_retries_and_acknowledges_after_handling(language: str, tmp_path: Path) -> None:
    lapsed = refusal(410, "CURSOR_EXPIRED", reason="retention_passed", missed_until="2026-10-22T00:00:00Z")
    steps = (AWAY, page(event(1), event(2)), LOST, page(cursor="cur_3"), lapsed, page(event(4), restarted_from="cur_3"))
    with open_scripted_feed(*steps, acks=[AWAY, LOST]) as feed, looping(language, tmp_path, feed.url) as loop:
        printed = [read_line(loop).split()[0] for _ in range(3)]
        assert feed.parked.wait(HELD_S)
        assert printed == [b"evt_1", b"evt_2", b"evt_4"]
        assert feed.acked() == ["cur_2", "cur_2", "cur_2", "cur_3", "cur_4"]
        assert {seen.headers["x-api-key"] for seen in feed.seen} == {"sk_scripted"}
        assert all(query == {"consumer": "billing", "wait_s": "25"} for query in feed.queries())
    assert b"2026-10-22T00:00:00Z" in loop.log.read_bytes()


@of_each_loop
@pytest.mark.parametrize(
    "steps", [(refusal(401, "INVALID_API_KEY"),), (AWAY,) * 5], ids=["refused", "fails five times"]
)
def test_documented_loop_ends_with_message_on_permanent_or_repeated_failure(
    language: str, steps: Sequence[Step], tmp_path: Path
) -> None:
    with open_scripted_feed(*steps) as feed, looping(language, tmp_path, feed.url) as loop:
        assert loop.wait() == 1
        assert (rest_of(loop), len(feed.seen)) == ([], len(steps))
    assert ("INVALID_API_KEY" if len(steps) == 1 else "failed five times in a row") in loop.log.read_text()


@of_each_loop
def test_documented_loop_respects_poll_interval(language: str, tmp_path: Path) -> None:
    later = page(event(1), headers={"x-poll-interval": "3600"})
    with (
        open_scripted_feed(later, refusal(401, "INVALID_API_KEY")) as feed,
        looping(language, tmp_path, feed.url) as loop,
    ):
        read_line(loop)
        wait_until(feed.acked)
        assert not has_line(loop, 0.5)
        assert len(feed.queries()) == 1
