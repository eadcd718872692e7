"""Short commands, each a process of its own, forked from one that has the program loaded: most of a command is loading.

A fork sees its own folder, environment, arguments, stdin, stdout and stderr, and ends as an interpreter ends.
Run as a program, this file is the process that forks: a JSON line in for each command, its exit code out.
"""

import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

PROJECT = Path(__file__).resolve().parents[2]
COMMAND_S = 90.0


class Commands:
    """Runs commands one after another."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        """`popen` is the process that forks."""
        self._popen = popen

    def run(self, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], out: Path, err: Path) -> int:
        """Run `sluice` with these arguments; its exit code, minus the signal's number when one ended it."""
        stdin, stdout = self._popen.stdin, self._popen.stdout
        assert stdin is not None
        assert stdout is not None
        # ASCII with surrogates escaped, so that arguments which are no UTF-8 arrive as the bytes that they are.
        told = [argument.encode("utf-8", "surrogateescape").hex() for argument in arguments]
        request = {"arguments": told, "folder": str(folder), "environ": dict(environ), "out": str(out), "err": str(err)}
        stdin.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
        stdin.flush()
        assert select.select([stdout], [], [], COMMAND_S)[0], f"sluice {' '.join(arguments)} ran over {COMMAND_S} s"
        return int(stdout.readline())


@contextmanager
def open_commands() -> Iterator[Commands]:
    """The process that forks, gone with its current command when the block ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.commands"],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as popen:
        try:
            yield Commands(popen)
        finally:
            os.killpg(popen.pid, 9)


def _fork_each() -> None:
    import storage.postgres  # noqa: F401, PLC0415 - a command on a server loads it when it opens its store
    from gateway.cli import main  # noqa: PLC0415 - only the process that forks loads the program

    for line in sys.stdin.buffer:
        pid = os.fork()
        if not pid:
            become(orjson.loads(line))
            main()
            return
        _, status = os.waitpid(pid, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def become(request: Mapping[str, object]) -> None:
    """Be the process that a request describes."""
    arguments, environ = request["arguments"], request["environ"]
    assert isinstance(arguments, list)
    assert isinstance(environ, dict)
    for number, file in enumerate((os.devnull, str(request["out"]), str(request["err"]))):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["sluice", *(os.fsdecode(bytes.fromhex(argument)) for argument in arguments)]


if __name__ == "__main__":
    _fork_each()
