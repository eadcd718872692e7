"""`sluice` on a disk of 8 MB that only this program sees, with a copy of the files in a folder.

The first argument is the folder. Only root may mount.
"""

import ctypes
import os
import subprocess
import sys

from gateway.cli import main as sluice

CLONE_NEWNS = 0x20000
MOUNT = """
mount --make-rprivate / && cp -a "$0" "$0.kept" && mount -t tmpfs -o size=8m none "$0" && cp -a "$0.kept/." "$0"
"""


def main() -> None:
    """Mount the disk, and run `sluice` with the other arguments."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    subprocess.run(["sh", "-c", MOUNT, sys.argv.pop(1)], check=True)
    sluice()
