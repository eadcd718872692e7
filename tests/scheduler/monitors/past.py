"""Past runs with made-up numbers."""

from __future__ import annotations

from hypothesis import strategies as st

from scheduler.monitors.history.past_runs import RunNumbers
from scheduler.monitors.metrics.numbers import Numbers, deltas_of

HOUR_S = 3600.0
FIRST = 1_800_000_000.0
VIEWS, LIKES = "items[].post.engagement.views", "items[].post.engagement.likes"


def past(*each: Numbers) -> list[RunNumbers]:
    """Return hourly runs, oldest first, each with its changes since the previous one."""
    before = [None, *each]
    return [
        RunNumbers(
            FIRST + place * HOUR_S,
            f"run_{place}",
            "ok",
            numbers,
            {} if (deltas := deltas_of(before[place], numbers)) is None else deltas.to_json()["rows"],
        )
        for place, numbers in enumerate(each)
    ]


NUMBER = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.dictionaries(
    st.text(min_size=1, max_size=8), st.dictionaries(st.sampled_from((VIEWS, LIKES, "total")), NUMBER), max_size=5
)
HISTORIES = st.lists(NUMBERS, max_size=6).map(lambda each: past(*each))
