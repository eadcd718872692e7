"""Charges: credits are reserved before a call, settled or refunded after it, and refunded after a crash."""
