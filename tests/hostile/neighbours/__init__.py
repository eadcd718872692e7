"""Two accounts on one node, one of them hostile, and the effects on the other account (docs/testing.md)."""
