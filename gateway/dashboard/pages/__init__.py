"""The pages, a module an area."""
