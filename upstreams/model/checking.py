"""The faults that the check of a declaration can find. Most functions yield a sentence for each fault."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Final

from upstreams.known_names import KnownNames
from upstreams.model.errors import UNREADABLE, DeclarationError

CAUSED_BY_FAULTS: Final = (*UNREADABLE, SyntaxError)
"""The exceptions that a faulty declaration can cause while it is compiled. While a body is read, an odd body causes
them."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@contextmanager
def declaring(place: str) -> Iterator[None]:
    """Convert the errors of a block that compiles or checks a part of a declaration.

    Raises:
        DeclarationError: The declaration is faulty. Each line of the message starts with `place`.
    """
    try:
        yield
    except DeclarationError as exc:
        lines = str(exc).splitlines()
        placed = "\n".join(one if one.startswith(place) else f"{place}: {one}" for one in lines)
        raise DeclarationError(placed) from exc.__cause__  # the message says more than the traceback of `exc`
    except CAUSED_BY_FAULTS as exc:
        raise DeclarationError(f"{place}: {type(exc).__name__}: {exc}") from exc


def repeated_names(what: str, names: Iterable[str]) -> Iterator[str]:
    """Yield a fault for each name that is declared more than once."""
    return (f"{what} `{name}` is declared {times} times" for name, times in Counter(names).items() if times > 1)


def unknown_names(what: str, names: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Yield a fault for each unknown name, with the most similar known one, or else with all known ones."""
    for name in names:
        if name not in known:
            near = KnownNames(known).nearest(name)
            hint = f"Did you mean `{near}`?" if near else f"Known: {', '.join(f'`{one}`' for one in known) or 'none'}."
            yield f"unknown {what}: `{name}`. {hint}"


def not_a_link(field: str, value: str) -> Iterator[str]:
    """Yield a fault if the value is not the URL of a page."""
    if not value.startswith("https://"):
        yield f"`{field}` must start with `https://`, but it is `{value}`"


def not_a_day(field: str, value: str) -> Iterator[str]:
    """Yield a fault if the value is not a day of the calendar in the form `2026-11-28`."""
    if not _is_day(value):
        yield f"`{field}` must be a day such as `2026-11-28`, but it is `{value}`"


def _is_day(text: str) -> bool:
    try:
        return _DAY.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False
