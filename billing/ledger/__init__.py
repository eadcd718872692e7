"""Reads and verifies the ledger."""
