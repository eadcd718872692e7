"""The benchmark suite: the cost of a request in the server process, compared with peers in the same run."""
