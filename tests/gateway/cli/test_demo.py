"""`sluice demo`: it works without internet and leaves no files behind."""

import os
import re
import select
import shlex
import signal
import socket

import pytest

from tests.fakes.calling import call
from tests.processes.place import Place
from tests.processes.process import Process

LAST_WORDS = "it leaves no files."


def welcome(process: Process) -> str:
    """Return the last line that the demo prints when it is ready."""
    stdout = process.popen.stdout
    assert stdout is not None
    text = process.first_line
    while LAST_WORDS.encode() not in text:
        assert select.select([stdout], [], [], 10)[0], text
        text += os.read(stdout.fileno(), 65_536)
    return text.decode()


def perform(curl: str) -> None:
    """Run a curl line, and check the envelope of its response."""
    command, silent, header_option, header, url = shlex.split(os.path.expandvars(curl))
    assert (command, silent, header_option) == ("curl", "-s", "-H")
    name, _, value = header.partition(": ")
    answered = call(url, headers={name: value})
    envelope = answered.json
    assert (answered.status, envelope["success"], envelope["credits_used"]) == (200, True, 1), envelope
    assert envelope["data"]
    assert answered.headers["x-request-id"] == envelope["request_id"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_demo_ends_on_signal_and_removes_its_folder(place: Place, number: signal.Signals) -> None:
    before = set(place.folder.iterdir())
    with place.start("demo", "--port", "0") as process:
        welcome(process)
        (folder,) = set(place.folder.iterdir()) - before - {process.log}
        assert folder.name.startswith("sluice-demo-")
        process.signal(number)
        assert process.wait() == 0
        assert process.log.read_text() == ""
    assert set(place.folder.iterdir()) - before == {process.log}


def test_demo_example_calls_work(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.start("demo", "--port", "0") as process:
        text = welcome(process)
        for name, value in re.findall(r"^ +export (\w+)=(\S+)$", text, re.MULTILINE):
            monkeypatch.setenv(name, value)
        calls = re.findall(r"^ +(curl .*)$", text, re.MULTILINE)
        assert len(calls) == 3
        for curl in calls:
            perform(curl)


def test_demo_without_port_uses_default_or_free_port(place: Place) -> None:
    with place.start("demo") as one, place.start("demo") as other:
        ports = {re.findall(r"export URL=http://127.0.0.1:(\d+)", welcome(each))[0] for each in (one, other)}
        assert len(ports) == 2


def test_demo_rejects_port_in_use(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        why = place.run("demo", "--port", str(taken.getsockname()[1])).refused(1)
    assert "in use; choose another --port" in why
