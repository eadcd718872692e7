"""Charges: taken before a call, closed after it, recovered after a crash."""
