"""Writes the index that a wheel contains: `python -m upstreams.index`, before the wheel is built."""

from __future__ import annotations

import sys

from upstreams.index import build_rows
from upstreams.index.files import write_compiled

if __name__ == "__main__":
    sys.stdout.write(f"{write_compiled(build_rows)}\n")
