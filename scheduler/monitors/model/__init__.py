"""The records of monitors: the fields that clients send, and the rows that are stored."""
