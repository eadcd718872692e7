"""Workers share their supervisor's stderr. If nothing reads it, they still serve and stop."""

import os
import select
import signal
import subprocess
from contextlib import ExitStack

import orjson

from tests.fakes.calling import get
from tests.fakes.sinks import open_sink
from tests.processes.children import open_child
from tests.processes.commands import PROJECT
from tests.processes.place import Place
from tests.processes.process import READY_S, STOP_S


def test_workers_and_supervisor_survive_a_stalled_log(place: Place) -> None:
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "TMPDIR": str(place.folder)}
    command = [*place.program, "serve", "--config", str(place.config)]
    with ExitStack() as ending:
        sink = ending.enter_context(open_sink("stalled", 2))
        assert sink.file is not None
        out, err = subprocess.PIPE, sink.file
        popen = ending.enter_context(open_child(command, folder=place.folder, environ=own, out=out, err=err))
        assert popen.stdout is not None
        assert select.select([popen.stdout], [], [], READY_S)[0]
        line = orjson.loads(popen.stdout.readline())
        for _ in range(20):
            assert get(f"{line['url']}/v1/status").status == 200
        assert get(f"{line['admin_url']}/readyz").status == 200
        assert b'sluice_log_lines_waiting{worker="1"}' in get(f"{line['admin_url']}/metrics").body
        popen.send_signal(signal.SIGTERM)
        assert popen.wait(STOP_S) == 0
