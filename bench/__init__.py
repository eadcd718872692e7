"""The bench suite: what one request costs the server process, beside peers measured in the same run."""
