"""The events that a reader asks for, and the part of an event that wakes those who wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Moved(NamedTuple):
    """The part of an event by which a waiting reader knows whether it is for it."""

    account_id: str
    pos: int
    type: str
    key_id: str | None
    subject_id: str
    parent_id: str | None


@dataclass(frozen=True, slots=True)
class Filters:
    """The events that are asked for; None means all. A subject's id selects the events of its children too."""

    types: frozenset[str] | None = None
    subjects: frozenset[str] | None = None
    named: frozenset[str] | None = field(default=None, compare=False)
    """The types as they were named, families among them: what a family stands for may grow."""

    def admit(self, moved: Moved) -> bool:
        """Whether an event is among them; whether a key may see it is another question."""
        if self.types is not None and moved.type not in self.types:
            return False
        return self.subjects is None or moved.subject_id in self.subjects or moved.parent_id in self.subjects


ALL = Filters()
"""No filters at all."""
