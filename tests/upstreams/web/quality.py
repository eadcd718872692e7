"""Measures how well the main text of pages is extracted, compared with Trafilatura alone.

It uses our own pages, the recorded pages, and any benchmark:

    python -m tests.upstreams.web.quality
    python -m tests.upstreams.web.quality FOLDER

FOLDER has the format of the public benchmark of article extraction: `ground-truth.json` maps each id to an object
`{"articleBody": ...}`, and `html/ID.html.gz` are the pages. F1 is computed from the mean precision and the mean recall
of the runs of four words; each page has the same weight.
"""

from __future__ import annotations

import gzip
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from trafilatura import extract

from tests.upstreams.web.labelled import labelled_pages
from upstreams.model.errors import UpstreamError
from upstreams.web.reading.cleaning import as_text, page_tree
from upstreams.web.reading.document import read_document

RECORDINGS: Final = Path(__file__).parents[4] / "shared" / "recordings" / "web"
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
Read = Callable[[bytes], str]


@dataclass(slots=True)
class Quality:
    """The precision and the recall of each page."""

    precisions: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)

    def add(self, truth: str, found: str) -> None:
        """Count one page."""
        due, came = _runs(truth), _runs(found)
        right = sum((due & came).values())
        self.precisions.append(right / max(1, sum(came.values())))
        self.recalls.append(right / max(1, sum(due.values())))

    @property
    def f1(self) -> float:
        precision, recall = fmean(self.precisions), fmean(self.recalls)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    def __str__(self) -> str:
        return f"F1 {self.f1:.3f}, precision {fmean(self.precisions):.3f}, recall {fmean(self.recalls):.3f}"


def _runs(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    return Counter(tuple(words[at : at + 4]) for at in range(max(1, len(words) - 3)))


def ours(page: bytes) -> str:
    """Return the text that scrape returns with `formats=text`. It is empty if scrape reports that there is none."""
    wanted = {"formats": ["text"], "is_file": True}
    try:
        return read_document(page, "text/html", "https://e.org/", "https://e.org/", wanted)["text"] or ""
    except UpstreamError:
        return ""


def theirs(page: bytes, **setting: Any) -> str:
    """Return Trafilatura's text, with the settings that suit it best."""
    return extract(page, include_comments=False, **setting) or ""


READERS: Final[dict[str, Read]] = {
    "as here": ours,
    "Trafilatura, without comments": theirs,
    "Trafilatura, for precision": partial(theirs, favor_precision=True),
    "Trafilatura, for recall": partial(theirs, favor_recall=True),
    "Trafilatura, fast": partial(theirs, fast=True),
}


def labelled() -> Iterator[tuple[bytes, str]]:
    """Return the generated pages."""
    for page in labelled_pages():
        yield f'<meta charset="utf-8">{page.html}'.encode(), page.truth


def recorded() -> Iterator[tuple[bytes, str]]:
    """Return real pages, with the main text that another parser's authors expect."""
    for folder in sorted((RECORDINGS / "readability").iterdir()):
        yield (folder / "source.html").read_bytes(), as_text(page_tree((folder / "expected.html").read_text()))


def benchmark(folder: Path) -> Iterator[tuple[bytes, str]]:
    """Yield the pages of the benchmark in a folder."""
    for name, truth in json.loads((folder / "ground-truth.json").read_text()).items():
        yield gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes()), truth["articleBody"]


def quality(pages: Iterator[tuple[bytes, str]], readers: Mapping[str, Read] = READERS) -> dict[str, Quality]:
    """Return the scores of each reader on these pages."""
    found = {name: Quality() for name in readers}
    for page, truth in pages:
        for name, read in readers.items():
            found[name].add(truth, read(page))
    return found


def segments(read: Read) -> tuple[int, int]:
    """Return how many required texts are missing from recorded pages, and how many forbidden texts are in them."""
    missing = wrong = 0
    folder = RECORDINGS / "trafilatura_eval"
    for row in json.loads(next(folder.glob("*.json")).read_text()).values():
        text = read((folder / "html" / row["file"]).read_bytes())
        missing += sum(one not in text for one in row["with"])
        wrong += sum(one in text for one in row["without"])
    return missing, wrong


def main(argv: list[str]) -> None:
    """Print the scores."""
    logging.disable(logging.CRITICAL)
    sets = {"pages of our own making": labelled()}
    if RECORDINGS.is_dir():
        sets["recorded pages"] = recorded()
    sets |= {name: benchmark(Path(name)) for name in argv}
    for title, pages in sets.items():
        print(title)
        for name, found in quality(pages).items():
            print(f"  {name}: {found}")
    if RECORDINGS.is_dir():
        print("recorded pages, texts that must and must not be found")
        for name, read in READERS.items():
            missing, wrong = segments(read)
            print(f"  {name}: {missing} are missing, {wrong} are there")


if __name__ == "__main__":
    main(sys.argv[1:])
