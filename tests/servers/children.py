"""Child processes that never outlive their test, and neither do theirs."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

GONE_S = 60.0


@contextmanager
def open_child(
    command: Sequence[str],
    *,
    log: Path,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    user: str | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in a session of its own, killed at the end by its id with all that it started.

    Both its outputs go to the end of `log`. `user` is another one to run as, for servers that refuse to run as root.
    """
    with log.open("ab") as out:
        popen = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            user=user,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield popen
    finally:
        with suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait(GONE_S)
