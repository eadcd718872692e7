"""Queries over cohorts whose nodes are killed repeatedly: each row and each charge happens once, and no data leaks."""
