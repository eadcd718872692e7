"""Free ports are free."""

import socket

from tests.servers.ports import free_port, free_ports


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in (*ports, free_port()):
        socket.create_server(("127.0.0.1", port)).close()
