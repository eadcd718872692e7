"""Three nodes on one PostgreSQL and one Redis: invariants that hold even if nodes or servers fail."""
