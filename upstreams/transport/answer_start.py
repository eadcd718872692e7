"""Reads an answer's head and the beginning of its body, and no more: for peers whose answer is hardly of interest."""

from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.http import HttpAnswer


class AnswerStartParser(AnswerParser):
    """Cuts a body off at `body_bytes_max`, at the cost of the connection, and leaves it encoded."""

    __slots__ = ()

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body; at the cap the answer is as whole as it will be."""
        room_bytes = self._body_bytes_max - self._length
        super().on_body(data[:room_bytes])
        if len(data) > room_bytes:
            self.complete = self._spoiled = True

    def answer(self) -> HttpAnswer:
        """The status, the headers, and what was kept of the body, as it was sent."""
        return HttpAnswer(self._status, self._headers, self._taken())

    def _judge_length(self, length: int) -> None:
        """Any is fine: no more than the cap will be read."""
