"""Processes that tests start, watch, signal and kill: each ends with its test, and with pytest however that ends."""
