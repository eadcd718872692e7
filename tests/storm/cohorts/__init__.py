"""Queries over cohorts whose nodes are killed repeatedly: each row and payment happens once, and no data leaks."""
