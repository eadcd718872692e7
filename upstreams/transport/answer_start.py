"""Parses the head and the start of an answer's body, for peers whose answer is of little interest."""

from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.http import HttpAnswer


class AnswerStartParser(AnswerParser):
    """Truncates a body at `body_bytes_max` and closes the connection then; the body remains encoded."""

    __slots__ = ()

    def answer(self) -> HttpAnswer:
        """Return the status, the headers, and the start of the body, without decoding."""
        return HttpAnswer(self._status, self._headers, self._taken())

    def _bytes_of_too_many(self) -> int:
        """Read up to the limit, which completes the answer."""
        if self._growing:
            del self._growing[self._body_bytes_max :]
            self.complete = True
        self._spoiled = True
        return self._body_bytes_max
