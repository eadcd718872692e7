"""The admin address: its access rules, the proofs that a node and a command give each other, and its answers."""
