"""Parameters that several composites use: lists of names from a fixed set, such as platforms and parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, Param, Value


@dataclass(frozen=True, slots=True)
class Several(Param):
    """Comma-separated names from a fixed set. Their canonical order is the order in `among`."""

    among: tuple[str, ...] = ()

    def asks_for(self, value: Value, slug: str) -> bool:
        """Return whether the value contains the slug of a platform."""
        return slug in str(value).split(",")

    def canonical(self, text: str) -> str:
        """Return the names in their canonical order, without duplicates.

        Raises:
            InvalidArgument: A name is not in the set.
        """
        names = {one.strip().lower() for one in text.split(",")} - {""}
        for name in sorted(names.difference(self.among)):
            near = get_close_matches(name, self.among, n=1, cutoff=0.6)
            meant = f"; did you mean {near[0]}?" if near else f"; valid values: {', '.join(self.among)}"
            raise InvalidArgument(self.name, f"has the unknown value {name[:60]}{meant}")
        if not names:
            raise InvalidArgument(self.name, "must not be blank")
        return ",".join(one for one in self.among if one in names)


def several(name: str, description: str, among: Iterable[str], *, default: str | None = None) -> Several:
    """Return a parameter for several names.

    If the request does not contain it and there is no `default`, it means all names.
    """
    known = tuple(among)
    return Several(name, description, ",".join(known[:2]) or "none", default=default, length_max=1_000, among=known)


def chosen(args: Args, name: str, among: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a request contains, or all names if it contains none."""
    text = args.text_or_none(name)
    return tuple(among) if text is None else tuple(text.split(","))


def number(name: str, description: str, default: int, *, least: int, most: int) -> Param:
    """Return an integer parameter with a minimum and a maximum."""
    return Param(
        name,
        f"{description}, {least} to {most}.",
        str(default),
        type="integer",
        default=default,
        minimum=least,
        maximum=most,
    )
