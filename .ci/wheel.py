"""Builds the wheel of this checkout, with the index of its platforms: `python .ci/wheel.py [FOLDER]` (default dist).

With the index, the first start after an installation need not import all platforms. Run it where the dependencies are
installed, because the index is built by importing the platforms.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

PROJECT = Path(__file__).parent.parent
INDEX = "upstreams/index/compiled.json"


def main(folder: Path) -> int:
    """Build the wheel and return the exit code."""
    subprocess.run([sys.executable, "-m", "upstreams.index"], cwd=PROJECT, check=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    try:
        subprocess.run([*command, "--wheel-dir", str(folder), str(PROJECT)], check=True)  # noqa: S603 - pip, on this checkout
    finally:
        (PROJECT / INDEX).unlink()
    (wheel,) = folder.glob("sluice-*.whl")
    if INDEX not in ZipFile(wheel).namelist():
        sys.exit(f"{wheel} does not contain {INDEX}")
    sys.stdout.write(f"{wheel}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist").absolute()))
