"""Three nodes on one PostgreSQL and one Redis: what must hold whatever happens to any of them."""
