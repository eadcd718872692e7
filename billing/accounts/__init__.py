"""Accounts and their balances."""
