"""Two accounts on one node, one of them hostile: what the other account notices (docs/testing.md)."""
