"""Commands with a full, stalled or closed stdout: they report it in one line, or continue and stop on request."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException

import pytest

from tests.fakes.calling import call
from tests.fakes.sinks import open_sink
from tests.processes.place import Place
from tests.processes.process import STOP_S
from tests.processes.started import Started
from tests.processes.waiting import wait_until
from tests.servers.ports import free_port

ENVIRON = {"PATH": os.environ["PATH"]}


@contextmanager
def started(place: Place, kind: str, *arguments: str) -> Iterator[Started]:
    """Run a command whose stdout is this kind of sink. Its stderr goes to the file `err`."""
    with open_sink(kind, 1) as sink:
        environ = {**ENVIRON, "TMPDIR": str(place.folder)}
        err = place.folder / "err"
        with place.commands.start(arguments, folder=place.folder, environ=environ, err=err, out=sink.file) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.mark.parametrize(
    "arguments",
    [("account", "create", "--name", "x"), ("account", "create", "--name", "x", "--json"), ("check",), ("demo",)],
    ids=" ".join,
)
def test_unwritable_result_is_an_error_in_one_line(place: Place, arguments: tuple[str, ...]) -> None:
    with started(place, "full", *arguments) as process:
        assert process.wait(STOP_S) == 1
    assert (place.folder / "err").read_text() == "sluice: stdout cannot be written: No space left on device\n"
    assert not list(place.folder.glob("sluice-demo-*"))


@pytest.mark.parametrize("arguments", [("demo",), ("platforms", "list")], ids=" ".join)
def test_command_whose_reader_has_left_ends_silently(place: Place, arguments: tuple[str, ...]) -> None:
    with started(place, "gone", *arguments) as process:
        assert process.wait(STOP_S) == 1
    assert (place.folder / "err").read_text() == ""


@pytest.mark.parametrize(
    "arguments", [("demo",), ("sandbox",), ("webhook", "listen", "--secret", "s")], ids=lambda words: words[0]
)
def test_serving_command_works_and_ends_with_stalled_stdout(place: Place, arguments: tuple[str, ...]) -> None:
    port = free_port()
    with started(place, "stalled", *arguments, "--port", str(port)) as process:
        wait_until(lambda: answers(port))
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
    assert (place.folder / "err").read_text() == ""


def answers(port: int) -> bool:
    try:
        return call(f"http://127.0.0.1:{port}/v1/status").status > 0
    except ConnectionError:
        return False


def test_receiver_with_stalled_stdout_answers_no_delivery_but_stops(place: Place) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    with (
        ThreadPoolExecutor(1) as threads,
        started(place, "stalled", "webhook", "listen", "--secret", "s", "--port", str(port)) as process,
    ):
        wait_until(lambda: answers(port))
        delivering = threads.submit(call, url, method="POST", body=b"{}")
        assert call(url).status == 405
        assert not delivering.done()
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0
        assert isinstance(delivering.exception(), ConnectionError | HTTPException)
