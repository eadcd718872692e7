"""How lists are paged: an object asks for a page, reads where the next one begins, and plays a stand-in's pages.

    OLDER = ByLink("max_id", size="limit", size_max=40)
    HITS = ByPage("page", first=0, size="hitsPerPage", pages="nbPages", total="nbHits")

Each keeps its place in the cursor's state, and knows where a list ends that has a finite depth. Members of the body
that it reads are named with dots, as in a field map.
"""

from upstreams.model.paging.counted import ByOffset, ByPage
from upstreams.model.paging.shape import Once, Paging, StandInPage, Whole
from upstreams.model.paging.tokens import ByLastId, ByLink, ByTime, ByToken

__all__ = ["ByLastId", "ByLink", "ByOffset", "ByPage", "ByTime", "ByToken", "Once", "Paging", "StandInPage", "Whole"]
