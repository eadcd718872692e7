"""Shedding load, and who is refused first."""
