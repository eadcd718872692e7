"""The nginx peer: a reverse proxy with a key check and limits, as many people would write it."""

import os
import shutil
import socket
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

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


def become_nginx(listener: socket.socket, *, upstream_url: str, key: str, folder: Path) -> NoReturn:
    """Turn this process into an nginx that serves `listener`, which it takes over as in an upgrade of its own."""
    program = shutil.which("nginx")
    assert program is not None
    config = folder / "nginx.conf"
    upstream, port = urlsplit(upstream_url).netloc, listener.getsockname()[1]
    config.write_text(CONFIG.format(folder=folder, key=key, upstream=upstream, port=port))
    listener.set_inheritable(True)
    os.execve(
        program, ["nginx", "-c", str(config), "-p", str(folder)], {**os.environ, "NGINX": f"{listener.fileno()};"}
    )
