"""Commands to a server under test, separate from its load."""
