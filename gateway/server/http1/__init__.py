"""Reading requests and writing response heads of HTTP/1.1."""
