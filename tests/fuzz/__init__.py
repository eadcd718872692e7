"""Fuzzing of the two edges: what clients send to the server, as requests and on
WebSockets, and what upstreams send to the transport.

`pytest` runs it for some seconds. Longer, with a seed of its own that is printed:

    python -m tests.fuzz --minutes 10
    python -m tests.fuzz --minutes 10 --seed 7
    python -m tests.fuzz --replay fuzz-failure.json

Hypothesis writes sound messages, mutates their bytes and cuts them into packets; what breaks an invariant is made as
small as it gets and saved. Time is Trio's mock clock: a connection that hangs shows at once, and slow clients cost
nothing. Both sides of each connection live in this process, on a socket pair, so the clock never jumps over bytes.
"""
