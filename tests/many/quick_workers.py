"""`sluice serve` with workers that are declared dead after a short silence."""

import os
import sys
from dataclasses import asdict

from gateway.cli import main as sluice
from gateway.node.workers.worker import read_worker
from tests.processes.serving import QUICK, serve_as


def main() -> None:
    """Run as the supervisor of workers that run this program, or as one of them."""
    if read_worker(os.environ) is not None:
        serve_as(pace=asdict(QUICK))
    else:
        sys.orig_argv = [sys.executable, "-m", "tests.many.quick_workers", *sys.argv[1:]]
        sluice()


if __name__ == "__main__":
    main()
