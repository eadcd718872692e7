"""Parameters that composites share: several names of a few, and where accounts and words are looked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, Param, Value


@dataclass(frozen=True, slots=True)
class Several(Param):
    """Names out of a few, with commas between; their canonical order is that of `among`."""

    among: tuple[str, ...] = ()

    def asks_for(self, value: Value, slug: str) -> bool:
        """Whether the platform is one of the names."""
        return slug in str(value).split(",")

    def canonical(self, text: str) -> str:
        """The names in their order, each once.

        Raises:
            InvalidArgument: one is none of them.
        """
        names = {one.strip().lower() for one in text.split(",")} - {""}
        for name in sorted(names.difference(self.among)):
            near = get_close_matches(name, self.among, n=1, cutoff=0.6)
            meant = f"; did you mean {near[0]}?" if near else f"; it takes {', '.join(self.among)}"
            raise InvalidArgument(self.name, f"names {name[:60]}, which is none of them{meant}")
        if not names:
            raise InvalidArgument(self.name, "must not be blank")
        return ",".join(one for one in self.among if one in names)


def several(name: str, description: str, among: Iterable[str], *, default: str | None = None) -> Several:
    """A parameter of several names; all of them when absent, unless there is a `default`."""
    known = tuple(among)
    return Several(name, description, ",".join(known[:2]) or "none", default=default, length_max=1_000, among=known)


def chosen(args: Args, name: str, among: Iterable[str]) -> tuple[str, ...]:
    """The names that a request chose; all of them when it chose none."""
    text = args.text_or_none(name)
    return tuple(among) if text is None else tuple(text.split(","))


def number(name: str, description: str, default: int, *, least: int, most: int) -> Param:
    """A parameter that is a number of something."""
    return Param(
        name,
        f"{description}, {least} to {most}.",
        str(default),
        type="integer",
        default=default,
        minimum=least,
        maximum=most,
    )
