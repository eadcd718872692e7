"""Types for the parts of ASGI 3 that the edge implements: HTTP, WebSocket and lifespan."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal, NotRequired, TypedDict

from gateway.server.http1.fields import Fields

EXTENSION: Final = "sluice"
"""The scope extension that announces message types beyond ASGI.

`sluice.answer` sends a complete small response in one message (hot path). `sluice.parts` sends a large response without
copying it. `sluice.hangup` registers a callback for a disconnect.
"""

State = dict[str, object]
HeaderLines = tuple[tuple[bytes, bytes], ...]


class AsgiVersion(TypedDict):
    """The versions of ASGI and of its HTTP specification."""

    version: str
    spec_version: str


class HTTPScope(TypedDict):
    """A request without its body."""

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
    """A WebSocket request. The app accepts it, or responds through the extension `websocket.http.response`."""

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
    """A complete message from the client. One of `text` and `bytes` contains it, and the other is None."""

    type: Literal["websocket.receive"]
    text: str | None
    bytes: bytes | None


class WebSocketDisconnect(TypedDict):
    """The WebSocket has ended. The code is 1006 if the client disconnected without a close frame."""

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
    """A piece of the response's body. `more_body` is missing or False in the last piece.

    `held` is not part of ASGI. It is the buffer that the piece was cut from, which stays in memory until the client has
    read the piece.
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
    """A complete response with a large body.

    Its consecutive parts are not copied, and other responses may share them.
    """

    type: Literal["sluice.parts"]
    status: int
    fields: Fields
    parts: tuple[bytes, ...]


class WatchHangup(TypedDict):
    """Asks the server to call `left` once, from Trio's loop, if the client disconnects before the app's call ends."""

    type: Literal["sluice.hangup"]
    left: Callable[[], None]


class WebSocketAccept(TypedDict):
    """Accepts the WebSocket. `subprotocol` is one of the subprotocols in the scope."""

    type: Literal["websocket.accept"]
    subprotocol: NotRequired[str | None]
    headers: NotRequired[Iterable[tuple[bytes, bytes]]]


class WebSocketSend(TypedDict):
    """A complete message to the client, as either `text` or `bytes`."""

    type: Literal["websocket.send"]
    text: NotRequired[str | None]
    bytes: NotRequired[bytes | None]


class WebSocketClose(TypedDict):
    """Ends the WebSocket. If the app has not accepted it yet, the client gets 403."""

    type: Literal["websocket.close"]
    code: NotRequired[int]
    reason: NotRequired[str | None]


class WebSocketResponseStart(TypedDict):
    """Status and headers of a response that refuses a WebSocket."""

    type: Literal["websocket.http.response.start"]
    status: int
    headers: NotRequired[Iterable[tuple[bytes, bytes]]]


class WebSocketResponseBody(TypedDict):
    """A piece of the body of a response that refuses a WebSocket."""

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
