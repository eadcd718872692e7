"""Charges: credits taken before a call, settled after it, and refunded after a crash."""
