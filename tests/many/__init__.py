"""Three nodes on one PostgreSQL and one Redis: invariants that hold whatever happens to any of them."""
