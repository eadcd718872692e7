"""`sluice serve` with settings that operators cannot change: the clock, the pace, the lengths of windows and leases."""

import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import trio

from gateway.cli.run import known_platforms
from gateway.config import load_config
from gateway.config.secrets import load_secret
from gateway.node.membership import MembershipPace
from gateway.node.serve import Start, serve
from gateway.node.workers.worker import read_worker
from gateway.observability.logs import open_log
from limits.shared_gate import GateSpans

QUICK = MembershipPace(beat_s=0.3, dead_after_s=3.0)
"""A pace at which a short silence counts as death. It is still long enough for a busy machine."""
NOTHING: Mapping[str, float] = MappingProxyType({})


def serve_as(skew_s: float = 0.0, pace: Mapping[str, float] = NOTHING, spans: Mapping[str, float] = NOTHING) -> None:
    """Serve on the config in the last argument, or run as a worker if a supervisor has started this process."""
    read_config = partial(load_config, sys.argv[-1], os.environ, known_platforms())
    config, worker = read_config(), read_worker(os.environ)
    also = {} if worker is None else {"worker": worker.number}
    with open_log("info", access=False, also=also) as log:
        start = Start(
            config,
            read_config,
            load_secret(os.environ, config.store.data_dir),
            os.environ,
            log,
            worker=worker,
            pace=MembershipPace(**pace),
            spans=GateSpans(**spans),
            now=lambda: time.time() + skew_s,
        )
        trio.run(serve, start)
