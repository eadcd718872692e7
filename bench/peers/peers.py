"""Servers for comparison: a bare Trio + httptools server, a plain stack that forwards with httpx, and nginx.

`python -m bench.peers.peers hello`, `... plain UPSTREAM_URL` and `... nginx UPSTREAM_URL KEY FOLDER` each print one
`listening` line.
"""

import os
import shutil
import socket
import sys
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import httptools
import httpx
import msgspec
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import Response, request
from quart_trio import QuartTrio

BACKLOG = 1024
RECEIVE_BYTES = 65_536
UPSTREAM_CONNECTIONS = 100
REQUESTS_PER_CONNECTION = 1_000_000_000
HELLO = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{"hello":"peer"}'
CONFIG = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log error;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    client_body_temp_path {folder}/nginx-body;
    proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-fastcgi;
    uwsgi_temp_path {folder}/nginx-uwsgi;
    scgi_temp_path {folder}/nginx-scgi;
    keepalive_requests 1000000000;
    map $http_x_api_key $known {{ default 0; "{key}" 1; }}
    limit_req_zone $http_x_api_key zone=window:1m rate=1000000r/s;
    limit_conn_zone $http_x_api_key zone=leases:1m;
    upstream sandbox {{ server {upstream}; keepalive 512; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            if ($known = 0) {{ return 401; }}
            limit_req zone=window burst=100000 nodelay;
            limit_conn leases 10000;
            proxy_pass http://sandbox;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
"""


class Requests:
    """Counts the complete requests that a parser has read. The owning connection resets the count."""

    def __init__(self) -> None:
        """Start at zero."""
        self.ended = 0

    def on_message_complete(self) -> None:
        """Count a request; called by the parser at its end."""
        self.ended += 1


async def serve_hello(listener: socket.socket) -> None:
    """Respond to every request on `listener` with one fixed body.

    The cost is the lower bound for any Python server on Trio.
    """
    listener.settimeout(0)
    async with trio.open_nursery() as nursery:
        while True:
            await trio.lowlevel.wait_readable(listener.fileno())
            connection, _ = listener.accept()
            nursery.start_soon(_answer_hello, connection)


async def _answer_hello(connection: socket.socket) -> None:
    requests = Requests()
    parser = httptools.HttpRequestParser(requests)
    with connection:
        connection.settimeout(0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := await _received(connection):
            parser.feed_data(data)
            connection.send(HELLO * requests.ended)
            requests.ended = 0


async def _received(connection: socket.socket) -> bytes:
    await trio.lowlevel.wait_readable(connection.fileno())
    try:
        return connection.recv(RECEIVE_BYTES)
    except ConnectionResetError:
        return b""


async def serve_plain(listener: socket.socket, upstream_url: str) -> None:
    """Forward every GET on `listener` to `upstream_url` with common libraries: hypercorn, quart-trio, httpx."""
    # The pool keeps every connection. With httpx's default of 20, the peer would look slower than its layers are.
    pool = httpx.Limits(max_connections=UPSTREAM_CONNECTIONS, max_keepalive_connections=UPSTREAM_CONNECTIONS)
    async with httpx.AsyncClient(base_url=upstream_url, limits=pool) as client:
        config = Config()
        config.bind = [f"fd://{listener.fileno()}"]
        config.keep_alive_max_requests = REQUESTS_PER_CONNECTION
        await serve(plain_app(client), config)


def plain_app(client: httpx.AsyncClient) -> QuartTrio:
    """Return the app of the plain stack: one route, without keys, limits or billing."""
    app = QuartTrio(__name__)

    @app.get("/<path:path>")
    async def forward(path: str) -> Response:
        answer = await client.get(path, params=request.args.to_dict())
        return Response(answer.content, status=answer.status_code, content_type=answer.headers.get("content-type"))

    return app


def main() -> None:
    """Serve the peer named on the command line, on a free port of loopback."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    line = {"event": "listening", "url": f"http://127.0.0.1:{listener.getsockname()[1]}"}
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.flush()
    match sys.argv[1:]:
        case ["hello"]:
            trio.run(serve_hello, listener)
        case ["plain", upstream_url]:
            trio.run(serve_plain, listener, upstream_url)
        case ["nginx", upstream_url, key, folder]:
            become_nginx(listener, upstream_url=upstream_url, key=key, folder=Path(folder))
        case _:
            sys.exit("usage: python -m bench.peers.peers hello | plain UPSTREAM_URL | nginx UPSTREAM_URL KEY FOLDER")


def become_nginx(listener: socket.socket, *, upstream_url: str, key: str, folder: Path) -> NoReturn:
    """Replace this process with an nginx that serves `listener`, which it inherits as in an upgrade of nginx."""
    program = shutil.which("nginx")
    assert program is not None
    config = folder / "nginx.conf"
    upstream, port = urlsplit(upstream_url).netloc, listener.getsockname()[1]
    config.write_text(CONFIG.format(folder=folder, key=key, upstream=upstream, port=port))
    listener.set_inheritable(True)
    os.execve(
        program, ["nginx", "-c", str(config), "-p", str(folder)], {**os.environ, "NGINX": f"{listener.fileno()};"}
    )


if __name__ == "__main__":
    main()
