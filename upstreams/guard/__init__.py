"""Targets that a caller names: no request leads to an address which is not public."""
