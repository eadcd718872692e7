"""List paging: each object requests pages, finds where the next one starts, and serves pages for a stand-in.

    OLDER = ByLink("max_id", size="limit", size_max=40)
    HITS = ByPage("page", first=0, size="hitsPerPage", pages="nbPages", total="nbHits")

Each object keeps its position in the state of the cursor, and stops at the depth limit of a list if there is one. Names
of members of the body may contain dots, as in a field map.
"""

from upstreams.model.paging.counted import ByOffset, ByPage
from upstreams.model.paging.shape import Once, Paging, StandInPage, Whole
from upstreams.model.paging.tokens import ByLastId, ByLink, ByTime, ByToken

__all__ = ["ByLastId", "ByLink", "ByOffset", "ByPage", "ByTime", "ByToken", "Once", "Paging", "StandInPage", "Whole"]
