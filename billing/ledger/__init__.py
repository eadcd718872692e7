"""Reading and verifying the ledger."""
