"""The ASGI app of `/v1`: admission, responses and routes."""
