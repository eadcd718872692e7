"""The admin address: its access rules, the mutual proofs of nodes and commands, and its responses."""
