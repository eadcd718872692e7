"""Make the README's pictures: a request's path from its table, and the landing page from a running node.

python -m tests.docs.pictures
"""

import io
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser

from tests.browser.chromium import Appearance, open_chromium, open_node, visiting
from tests.docs.request_path import request_path
from tests.processes.commands import PROJECT, open_commands
from tests.processes.place import Place, Served

PICTURES = PROJECT / "docs" / "pictures"
WAY, LANDING = PICTURES / "request.svg", PICTURES / "landing.png"
APPEARANCE = Appearance(1280, 850, "light")
_COLOURS = 256
_MADE_OF = ("style.css", "templates/base.html", "templates/home.html", "templates/cards.html")


def digest() -> str:
    """Return a digest of the landing page. If the digest changes, the picture is outdated."""
    folder = PROJECT / "gateway" / "docs" / "pages"
    return blake2b(b"".join((folder / name).read_bytes() for name in _MADE_OF), digest_size=8).hexdigest()


def landing_shot(browser: Browser, node: Served) -> bytes:
    """Return the landing page as PNG, with its digest."""
    with visiting(browser, APPEARANCE) as visit:
        visit.page.goto(node.url)
        shot = visit.page.screenshot()
    told = PngInfo()
    told.add_text("digest", digest())
    small = io.BytesIO()
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(_COLOURS, Image.Quantize.FASTOCTREE).save(
        small, "PNG", optimize=True, pnginfo=told
    )
    return small.getvalue()


def main() -> None:
    """Write both pictures."""
    WAY.write_text(request_path())
    with (
        TemporaryDirectory() as folder,
        open_commands() as runner,
        open_node(Place(Path(folder), runner)) as node,
        open_chromium() as browser,
    ):
        LANDING.write_bytes(landing_shot(browser, node))


if __name__ == "__main__":
    main()
