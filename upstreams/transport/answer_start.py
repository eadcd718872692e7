"""Reads an answer's head and the beginning of its body, and no more: for peers whose answer is hardly of interest."""

from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.http import HttpAnswer


class AnswerStartParser(AnswerParser):
    """Cuts a body off at `body_bytes_max`, at the cost of the connection, and leaves it encoded."""

    __slots__ = ()

    def answer(self) -> HttpAnswer:
        """The status, the headers, and what was kept of the body, as it was sent."""
        return HttpAnswer(self._status, self._headers, self._taken())

    def _bytes_of_too_many(self) -> int:
        """Read up to the cap; at the cap the answer is as whole as it will be."""
        if self._growing:
            del self._growing[self._body_bytes_max :]
            self.complete = True
        self._spoiled = True
        return self._body_bytes_max
