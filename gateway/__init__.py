"""The HTTP gateway: server, API, wiring and commands (floor 5)."""
