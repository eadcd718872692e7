"""The transport to upstreams: HTTP/1.1 on Trio with kept-alive connections. The module `http` defines its types."""
