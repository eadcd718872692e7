"""The events that a reader selects, and the part of an event that decides which waiting readers to wake."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class AppendedEvent(NamedTuple):
    """The part of an event that decides which waiting readers it matches."""

    account_id: str
    pos: int
    type: str
    key_id: str | None
    subject_id: str
    parent_id: str | None


@dataclass(frozen=True, slots=True)
class Filters:
    """Selects events by type and subject; None selects all. A subject's id also selects the events of its children."""

    types: frozenset[str] | None = None
    subjects: frozenset[str] | None = None
    named: frozenset[str] | None = field(default=None, compare=False)
    """The types as the client named them. Families are not expanded, because newer versions may add types to them."""

    def admit(self, event: AppendedEvent) -> bool:
        """Return whether the filters select an event, regardless of whether the key may see it."""
        if self.types is not None and event.type not in self.types:
            return False
        return self.subjects is None or event.subject_id in self.subjects or event.parent_id in self.subjects


ALL = Filters()
"""Filters that select everything."""
