"""Processes that tests start, watch, signal and kill. Each ends with its test, and with pytest however pytest ends."""
