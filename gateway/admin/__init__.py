"""The admin address: its access rules, the proofs that nodes and commands exchange, and its operations."""
