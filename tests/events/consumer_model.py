"""A model of consumers in plain lists and numbers: the specification, computed by scanning everything each time."""

from dataclasses import dataclass, field

from events.consumers.rules import DAY_S
from events.filters import AppendedEvent, Filters

LAPSE_DAYS = 30


@dataclass
class ModelEvent:
    event: AppendedEvent
    at: float


@dataclass
class ModelLog:
    """One account's log. `first` is the oldest kept position."""

    events: list[ModelEvent] = field(default_factory=list)
    first: int = 1

    @property
    def last(self) -> int:
        return len(self.events)

    def retain(self, before: float) -> None:
        while self.first <= self.last and self.events[self.first - 1].at < before:
            self.first += 1


@dataclass
class ModelPage:
    items: list[int]
    end: int
    has_more: bool
    unread: int
    restarted_from: int | None = None
    dropped: int = 0


@dataclass
class ModelConsumer:
    log: ModelLog
    key_id: str
    filters: Filters
    committed: int
    used_at: float
    served: int = 0
    told: bool = False

    def __post_init__(self) -> None:
        self.served = self.committed

    def matching(self) -> list[int]:
        return [
            one.event.pos
            for one in self.log.events
            if one.event.pos > max(self.committed, self.log.first - 1)
            and one.event.key_id in (None, self.key_id)
            and self.filters.admit(one.event)
        ]

    @property
    def unread(self) -> int:
        """Return the positions of the kept events."""
        return len(self.matching())

    def is_lapsed(self, now: float) -> bool:
        return self.told or now - self.used_at > LAPSE_DAYS * DAY_S or self.committed < self.log.first - 1

    def is_idle(self, now: float) -> bool:
        return now - self.used_at > DAY_S

    def move(self, place: int, now: float) -> None:
        self.committed = self.served = place
        self.used_at, self.told = now, False

    def read(self, limit: int, now: float) -> ModelPage | None:
        """Read a page. Return None for a lapse, which is reported once."""
        if not self.is_lapsed(now):
            return self._page(limit, now)
        if not self.told:
            self.told = True
            return None
        was = self.committed
        self.move(self.log.first - 1, now)
        page = self._page(limit, now)
        page.restarted_from, page.dropped = was, max(0, self.log.first - 1 - was)
        return page

    def _page(self, limit: int, now: float) -> ModelPage:
        self.used_at = now
        found, end = self.matching(), self.log.last
        again = [pos for pos in found if pos <= self.served]
        if again:
            found, end = again, self.served
        if len(found) > limit:
            found = found[:limit]
            end = found[-1]
        self.served = max(self.served, end)
        return ModelPage(found, end, has_more=end < self.log.last, unread=self.unread)

    def ack(self, pos: int, now: float) -> bool | None:
        """Acknowledge. Return whether the consumer advances, or None for a refusal."""
        if self.is_lapsed(now) or pos > self.served:
            return None
        self.used_at = now
        advances = pos > self.committed
        self.committed = max(self.committed, pos)
        return advances
