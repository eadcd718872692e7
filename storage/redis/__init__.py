"""Shared state on Redis: a single server, a cluster, or behind Sentinel.

This package uses only the parser and the errors of coredis. The clients of coredis (6.9.0) cost more CPU time per call
to a small script, in us:

| client | one task | 64 tasks at once |
|---|---|---|
| this package | 81 | 9 |
| coredis' connection | 145 | 30 |
| coredis' `Redis` | 267 | 111 |
| coredis' `RedisCluster` | 285 | 125 |

They also handle some faults in ways that a node cannot accept:

- Commands: each call to a frozen server waits for its own timeout, and still takes effect later. A call that is
  cancelled while its connection opens raises `ConnectionError` instead. The connection to a demoted primary is kept,
  so every write fails.
- Cluster: while a slot moves to a server that had none before, redirected calls go to random servers and fail.
- Messages: each reconnect takes a connection from the pool for good, so after 64 of them no message arrives. Unread
  messages are kept without a limit, and leaving a subscription blocks while the server is away.
"""
