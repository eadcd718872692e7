"""The scenarios as data: an attack, the neighbor's calls meanwhile, and the bounds for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tests.hostile.neighbours.attacks import answers, crawls, documents, reads, scripts, selectors
from tests.hostile.neighbours.attacks.attack import Attack
from tests.hostile.neighbours.neighbour import DATA, FREE, RENDERING, WEB, Kind

BESIDE = (WEB, *FREE)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Two accounts on one node. Memory figures are in MB: the maximum that a part of the node may use at a time.

    A node keeps up to 268 MB of answers (`[cache] max_bytes`), which only long answers fill within a minute. A browser
    may have 1 GB, and 1 GB for each page that grows before it is ended.
    """

    name: str
    item: str
    """The scenario's item in issue 34, or `control` for a second account that is not hostile."""
    attack: Attack
    kinds: tuple[Kind, ...] = BESIDE
    node_mb: float = 350.0
    workers_mb: float = 1_500.0
    browser_mb: float = 2_000.0
    unpaid_s: float | None = 12.0
    """CPU seconds per minute that refunded calls of the hostile account may take. None if its calls are free."""

    @property
    def has_browser(self) -> bool:
        """Whether the node uses a browser."""
        return RENDERING in self.kinds


_ALL = (
    Scenario("control", "none", documents.reading("small", 2)),
    Scenario("selectors-siblings", "4", selectors.EXCLUDE_SIBLINGS),
    Scenario("selectors-last-of-type", "4", selectors.EXCLUDE_LAST_OF_TYPE),
    Scenario("selectors-include", "4", selectors.INCLUDE),
    Scenario("selectors-extract", "4", selectors.EXTRACT),
    *(Scenario(f"pages-{page}", "5", documents.reading(page)) for page in documents.HOSTILE_PAGES),
    Scenario("pages-mixed", "5", documents.MIXED_FRESH),
    Scenario("pages-same", "5", documents.MIXED_SAME),
    Scenario("turns-workers", "6", documents.HEAVY, node_mb=500.0),
    Scenario("turns-aside", "6", answers.LONG_LISTS, kinds=(DATA, *FREE)),
    Scenario("turns-browser", "6", scripts.SLOW, kinds=(RENDERING, *FREE)),
    Scenario("hang-ups", "6", documents.HANG_UPS),
    Scenario("one-expensive", "7", documents.ONE_EXPENSIVE),
    Scenario("scripts-endless", "8", scripts.ENDLESS, kinds=(RENDERING, *FREE)),
    Scenario("scripts-memory", "8", scripts.HOGS, kinds=(RENDERING, *FREE), browser_mb=4_000.0),
    Scenario("crawls", "9", crawls.CRAWLS),
    Scenario("reads-results", "10", reads.RESULTS, unpaid_s=None),
    Scenario("reads-fewer", "10", reads.FEWER_RESULTS, unpaid_s=None),
    Scenario("reads-changes", "10", reads.CHANGES, unpaid_s=None),
    Scenario("reads-jsonl", "10", reads.LINES, unpaid_s=None),
)
SCENARIOS: Mapping[str, Scenario] = MappingProxyType({one.name: one for one in _ALL})
