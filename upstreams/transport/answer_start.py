"""Parses the head and the start of the body of an answer, for peers whose full answer is not needed."""

from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.http import HttpAnswer


class AnswerStartParser(AnswerParser):
    """Truncates the body at `body_bytes_max` and closes the connection at that point. The body remains encoded."""

    __slots__ = ()

    def answer(self) -> HttpAnswer:
        """Return the status, the headers, and the start of the body, without decoding."""
        return HttpAnswer(self._status, self._headers, self._taken())

    def _excess_body_bytes(self) -> int:
        """Read up to the limit; the answer is then complete."""
        if self._growing:
            del self._growing[self._body_bytes_max :]
            self.complete = True
        self._spoiled = True
        return self._body_bytes_max
