"""Fuzzing of the two edges: requests and WebSocket frames sent to the server, and responses sent to the transport.

`pytest` runs it for some seconds. For longer runs, with a printed seed:

    python -m tests.fuzz --minutes 10
    python -m tests.fuzz --minutes 10 --seed 7
    python -m tests.fuzz --replay fuzz-failure.json

Hypothesis writes valid messages, mutates their bytes and cuts them into packets. A case that breaks an invariant is
shrunk and saved. Time is Trio's mock clock, so a connection that hangs is noticed immediately, and slow clients cost no
time. Both sides of each connection are in this process, on a socket pair, so the clock never jumps while bytes are in
transit.
"""
