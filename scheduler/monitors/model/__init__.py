"""The records of monitors: what a caller may send, and how it is stored."""
