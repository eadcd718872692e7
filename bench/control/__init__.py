"""Commands to a server under test, beside its load."""
