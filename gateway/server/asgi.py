"""The part of ASGI 3 that the edge implements, as types: HTTP, WebSocket and lifespan."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal, NotRequired, TypedDict

from gateway.server.http1.fields import Fields

EXTENSION: Final = "sluice"
"""The scope extension that announces message types beyond ASGI.

`sluice.answer` is a complete small response in one message (hot path), `sluice.parts` a large response without a copy,
`sluice.hangup` a callback for a disconnect.
"""

State = dict[str, object]
HeaderLines = tuple[tuple[bytes, bytes], ...]


class AsgiVersion(TypedDict):
    """The versions of ASGI and of its HTTP specification."""

    version: str
    spec_version: str


class HTTPScope(TypedDict):
    """One request, without its body."""

    type: Literal["http"]
    asgi: AsgiVersion
    http_version: str
    method: str
    scheme: str
    path: str
    raw_path: bytes
    query_string: bytes
    root_path: str
    headers: list[tuple[bytes, bytes]]
    client: tuple[str, int] | None
    server: tuple[str, int | None] | None
    extensions: NotRequired[dict[str, dict[str, object]]]
    state: NotRequired[State]


class WebSocketScope(TypedDict):
    """One WebSocket request. The app accepts it, or sends a response with the extension `websocket.http.response`."""

    type: Literal["websocket"]
    asgi: AsgiVersion
    http_version: str
    scheme: str
    path: str
    raw_path: bytes
    query_string: bytes
    root_path: str
    headers: list[tuple[bytes, bytes]]
    client: tuple[str, int] | None
    server: tuple[str, int | None] | None
    subprotocols: list[str]
    extensions: dict[str, dict[str, object]]
    state: NotRequired[State]


class LifespanScope(TypedDict):
    """The app's lifespan, from startup before the first request to shutdown after the last one."""

    type: Literal["lifespan"]
    asgi: AsgiVersion
    state: State


class RequestMessage(TypedDict):
    """A piece of the request's body."""

    type: Literal["http.request"]
    body: bytes
    more_body: bool


class DisconnectMessage(TypedDict):
    """The client has disconnected, or the response is complete."""

    type: Literal["http.disconnect"]


class WebSocketConnect(TypedDict):
    """The first message of a WebSocket, which the app accepts or refuses."""

    type: Literal["websocket.connect"]


class WebSocketReceive(TypedDict):
    """One complete message from the client, either `text` or `bytes`. The other field is None."""

    type: Literal["websocket.receive"]
    text: str | None
    bytes: bytes | None


class WebSocketDisconnect(TypedDict):
    """The WebSocket has ended. The code is 1006 if the client disconnected without a closing frame."""

    type: Literal["websocket.disconnect"]
    code: int
    reason: NotRequired[str]


class LifespanRequest(TypedDict):
    """The server's request to the app to start up or shut down."""

    type: Literal["lifespan.startup", "lifespan.shutdown"]


class ResponseStart(TypedDict):
    """Status and headers of a response. Header names must be in lower case."""

    type: Literal["http.response.start"]
    status: int
    headers: NotRequired[Iterable[tuple[bytes, bytes]]]


class ResponseBody(TypedDict):
    """A piece of the response's body. The last piece has no `more_body`.

    Beyond ASGI, `held` is the buffer that the piece was cut from. That buffer stays in memory until the client has read
    the piece.
    """

    type: Literal["http.response.body"]
    body: NotRequired[bytes]
    more_body: NotRequired[bool]
    held: NotRequired[bytes]


class WholeAnswer(TypedDict):
    """A complete response. The server adds Content-Length, and omits the body where HTTP forbids one."""

    type: Literal["sluice.answer"]
    status: int
    fields: Fields
    body: bytes


class AnswerInParts(TypedDict):
    """A complete response whose body is too large to copy, as consecutive parts that other responses may share."""

    type: Literal["sluice.parts"]
    status: int
    fields: Fields
    parts: tuple[bytes, ...]


class WatchHangup(TypedDict):
    """Asks the server to call `left` once, from Trio's loop, if the client disconnects before the app's call ends."""

    type: Literal["sluice.hangup"]
    left: Callable[[], None]


class WebSocketAccept(TypedDict):
    """Switches protocols. `subprotocol` is one of the subprotocols in the scope."""

    type: Literal["websocket.accept"]
    subprotocol: NotRequired[str | None]
    headers: NotRequired[Iterable[tuple[bytes, bytes]]]


class WebSocketSend(TypedDict):
    """One complete message to the client, either `text` or `bytes`."""

    type: Literal["websocket.send"]
    text: NotRequired[str | None]
    bytes: NotRequired[bytes | None]


class WebSocketClose(TypedDict):
    """Ends the WebSocket. Before the app has accepted it, the client gets a 403."""

    type: Literal["websocket.close"]
    code: NotRequired[int]
    reason: NotRequired[str | None]


class WebSocketResponseStart(TypedDict):
    """Status and headers of the response that refuses a WebSocket."""

    type: Literal["websocket.http.response.start"]
    status: int
    headers: NotRequired[Iterable[tuple[bytes, bytes]]]


class WebSocketResponseBody(TypedDict):
    """A piece of the body of the response that refuses a WebSocket."""

    type: Literal["websocket.http.response.body"]
    body: NotRequired[bytes]
    more_body: NotRequired[bool]


class LifespanComplete(TypedDict):
    """The app has started or stopped."""

    type: Literal["lifespan.startup.complete", "lifespan.shutdown.complete"]


class LifespanFailure(TypedDict):
    """The app could not start or stop."""

    type: Literal["lifespan.startup.failed", "lifespan.shutdown.failed"]
    message: NotRequired[str]


Scope = HTTPScope | WebSocketScope | LifespanScope
ReceiveMessage = (
    RequestMessage | DisconnectMessage | WebSocketConnect | WebSocketReceive | WebSocketDisconnect | LifespanRequest
)
SendMessage = (
    ResponseStart
    | ResponseBody
    | WholeAnswer
    | AnswerInParts
    | WatchHangup
    | WebSocketAccept
    | WebSocketSend
    | WebSocketClose
    | WebSocketResponseStart
    | WebSocketResponseBody
    | LifespanComplete
    | LifespanFailure
)
Receive = Callable[[], Awaitable[ReceiveMessage]]
Send = Callable[[SendMessage], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
