"""Which events a reader asks for, and what is told of an event to who waits for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Moved(NamedTuple):
    """What readers that wait are told of an event, to know whether it is for them."""

    account_id: str
    pos: int
    type: str
    key_id: str | None
    subject_id: str
    parent_id: str | None


@dataclass(frozen=True, slots=True)
class Filters:
    """Which events are asked for; None means all. A subject's id selects the events of its children too."""

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
"""None at all."""
