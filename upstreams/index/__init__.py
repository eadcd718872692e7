"""The compiled index: the declarations of everything that a node serves, read without importing the platforms.

The catalog, the routes, the prices and the docs need the data of all platforms, but a request needs the code of one.
`load_indexed` returns the same `Platform` objects as `upstreams.composites.load_all`, with placeholders for functions.
The first call to a platform imports its package (`upstreams.model.loading`).

The index is built when it is first needed after a change to the packages, and stored (`upstreams.index.files`). An
installed wheel contains it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from upstreams.composites import load_all, load_one
from upstreams.index.files import read_index
from upstreams.index.reading import platforms_of

if TYPE_CHECKING:
    from upstreams.model.endpoint import Platform


def load_indexed(warn: Callable[[str], None] = lambda _problem: None) -> tuple[Platform, ...]:
    """Return everything that a node serves: every platform, then the web, then the composites.

    Each call returns new objects, so two nodes in one process share no state. `warn` is called with the reason if the
    index had to be built and cannot be stored, because then every start takes longer.

    Raises:
        DeclarationError: A declaration is faulty. The message has a line for each fault of each platform.
        NotStorable: A declaration contains an unknown kind of value.
    """
    return platforms_of(read_index(build_rows, warn), load_one)


def build_rows() -> dict[str, Any]:
    """Check all declarations and return the rows of the index. This imports everything. Raises like `load_indexed`."""
    from upstreams.index.writing import rows_of  # noqa: PLC0415 - imported only if the index is missing
    from upstreams.model.platform_check import check_platforms  # noqa: PLC0415 - so is this

    every = load_all()
    check_platforms(every)
    return rows_of(every)
