"""Accounts, keys, prices and the ledger (floor 2)."""
