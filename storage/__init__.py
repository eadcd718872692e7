"""Database connections, group commit and migrations (floor 0)."""
