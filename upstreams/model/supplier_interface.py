"""The HTTP interface of a supplier: a company that sells data of many platforms (decisions 25)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from upstreams.model.errors import (
    PARTNER,
    NotFound,
    PartnerUnavailable,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.hidden_errors import IsError, if_false
from upstreams.model.refusals import ABSENT, Pace, retry_after_s
from upstreams.model.steps import Answer

HOLD_S: Final = 300.0
"""Seconds without calls after a supplier refused the key or had no credits left. Then one call tries again."""
_NOTE_MAX = 500
_PASSING = frozenset((500, 502, 503, 504))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """Describes how to call a supplier and what its answers mean. Suppliers with one interface can replace each other.

    The refusals never quote the supplier, because customers can read them.
    """

    name: str
    base_url: str
    headers: Callable[[str], tuple[tuple[str, str], ...]]
    """Returns the headers that contain the key."""
    docs_url: str
    terms_url: str
    checked_on: date
    """The day on which the interface was last compared with its documentation or a live answer."""
    key_refused: tuple[int, ...] = (401,)
    unpaid: tuple[int, ...] = (402,)
    succeeded: str = ""
    """The body member that is false in an error. Such an error may have a success status."""
    message: str = "message"
    """The body member that contains the error message."""
    absent_words: tuple[str, ...] = ()
    """Words of a message that mean that the item does not exist."""
    private_words: tuple[str, ...] = ()
    """Words of a message that mean that only some users can see the item."""
    charged: str = ""
    """The body member with the cost of the call, in the supplier's units."""
    left: str = ""
    """The body member with the operator's remaining units."""
    costs: Mapping[str, int] = field(default_factory=dict)
    """The usual cost of a path in units; 1 for other paths."""
    pace: Pace | None = None
    group_of: Callable[[str], str] = lambda path: path
    """Returns the platform that a path reads. Failures of a single platform do not show that the supplier failed."""

    @property
    def hidden_error(self) -> IsError | None:
        """The test for errors with a success status."""
        return if_false(self.succeeded) if self.succeeded else None

    @property
    def own_members(self) -> tuple[str, ...]:
        """The body members about the operator's contract, which customers must never see."""
        return tuple(filter(None, (self.succeeded, self.charged, self.left)))

    def usual_cost(self, path: str) -> int:
        """Return the usual cost of a call, in units."""
        return self.costs.get(path, 1)

    def cost(self, path: str, answer: Answer) -> int:
        """Return the cost of a successful call: the cost that the answer states, or the usual one."""
        stated = answer.number(self.charged) if self.charged else None
        return self.usual_cost(path) if stated is None else max(stated, 0)

    def judge(self, answer: Answer) -> UpstreamError | None:
        """Return the refusal that an error answer expresses, with the units that it cost.

        Return None for an answer without an error and without data.
        A note, which is only for the operator, contains the status and the message.
        """
        if answer.status < 400 and answer.body is None:
            return None
        refusal = self._refusal(answer)
        stated = answer.number(self.charged) if self.charged and isinstance(answer.body, dict) else None
        refusal.charged_units = max(stated or 0, 0)
        refusal.add_note(f"status {answer.status}, {self._message(answer)[:_NOTE_MAX] or 'without a message'}")
        return refusal

    def _refusal(self, answer: Answer) -> UpstreamError:
        status = answer.status
        if status in (*self.key_refused, *self.unpaid):
            return PartnerUnavailable(PARTNER, "unpaid" if status in self.unpaid else "key_refused", HOLD_S)
        if status == 429:
            return UpstreamThrottled(PARTNER, retry_after_s(answer.headers))
        message = self._message(answer).lower()
        if any(word in message for word in self.private_words):
            return NotFound(reason="account_private")
        if status in ABSENT or (status < 500 and any(word in message for word in self.absent_words)):
            # A server that does not know the path sends the same status, but not the supplier's object.
            return NotFound(by_status=not self._is_own(answer))
        return UpstreamFailed(PARTNER, "the source reported an error", passing=status in _PASSING)

    def _message(self, answer: Answer) -> str:
        found = answer.body.get(self.message) if isinstance(answer.body, dict) else None
        return found if isinstance(found, str) else ""

    def _is_own(self, answer: Answer) -> bool:
        return isinstance(answer.body, dict) and self.succeeded in answer.body
