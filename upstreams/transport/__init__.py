"""The way to an upstream: HTTP/1.1 on Trio with kept connections; what goes out and comes back is in `http`."""
