"""The edge: an ASGI 3 server for HTTP/1.1 on Trio and llhttp, and an alternative engine on Hypercorn."""
