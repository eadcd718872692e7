"""nginx in front of a server under test, on a Unix socket in a folder."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

CONFIG = """
daemon off; master_process off; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    client_header_timeout 300ms; client_body_timeout 300ms; keepalive_timeout 300ms; lingering_timeout 100ms;
    upstream app {{ server 127.0.0.1:{port}; keepalive 4; }}
    server {{
        listen unix:{folder}/socket;
        location / {{
            proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_request_buffering off;
        }}
        location = /v1/events/ws {{
            proxy_pass http://app; proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
        }}
    }}
}}
"""


def nginx_program() -> str:
    """Return the path of nginx. Without nginx the test is skipped, but fails in CI."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program is None and os.environ.get("CI"):
        pytest.fail("nginx is not installed, but its responses must be compared in CI")
    if program is None:
        pytest.skip("nginx is not installed, so its responses cannot be compared with ours")
    return program


@asynccontextmanager
async def open_nginx(folder: Path, port: int) -> AsyncIterator[str]:
    """nginx as a proxy for the server at `port`. Yields the path of the socket on which it listens."""
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, port=port))
    run = partial(trio.run_process, [nginx_program(), "-e", "stderr", "-c", str(config)])
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(run, check=False))
        try:
            while not await _listens(folder / "socket"):
                assert process.returncode is None, "nginx did not start"
                await trio.sleep(0.01)
            yield str(folder / "socket")
        finally:
            process.terminate()


async def _listens(socket: Path) -> bool:
    """Return whether the socket accepts connections; a bound socket has a file before that."""
    try:
        await (await trio.open_unix_socket(socket)).aclose()
    except OSError:
        return False
    return True
